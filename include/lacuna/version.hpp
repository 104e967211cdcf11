#pragma once

#define LACUNA_VERSION_MAJOR 0
#define LACUNA_VERSION_MINOR 1
#define LACUNA_VERSION_PATCH 0

/// Major * 10000 + minor * 100 + patch, for preprocessor comparisons.
#define LACUNA_VERSION (LACUNA_VERSION_MAJOR * 10000 + LACUNA_VERSION_MINOR * 100 + LACUNA_VERSION_PATCH)

namespace lacuna {

struct version_number {
  int major_part, minor_part, patch_part;
  friend bool operator==(version_number const&, version_number const&) = default;
};

/// The version of these headers.
inline constexpr version_number version{LACUNA_VERSION_MAJOR, LACUNA_VERSION_MINOR, LACUNA_VERSION_PATCH};

}  // namespace lacuna
