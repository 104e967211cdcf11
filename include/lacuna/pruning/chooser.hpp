#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>

#include <concepts>
#include <type_traits>

namespace lacuna {

/// Keeps as many of the best chunks as the budget allows.
struct best_chunks {
  void check() const {}
  friend bool operator==(best_chunks const&, best_chunks const&) = default;
};

/// Keeps the fewest best chunks that hold `mass` of the softmax over the chunks' scores, within the budget.
struct top_mass {
  float mass = 0.95f;

  void check() const { require(mass > 0 && mass <= 1, "mass is ", mass, "; expected more than 0, at most 1"); }
  friend bool operator==(top_mass const&, top_mass const&) = default;
};

/// Keeps chunks whose logit is at most `distance` below the best one's, within the budget.
struct near_best {
  float distance = 10;

  LACUNA_HD bool keeps(float logit, float best) const { return logit >= best - distance; }
  void check() const { require(distance >= 0, "distance is ", distance, "; expected at least 0"); }
  friend bool operator==(near_best const&, near_best const&) = default;
};

/// A chooser that counts by a share of the softmax, or one that looks at each logit by itself.
template <class C>
concept MassChooser = requires(C const c) {
  { c.mass } -> std::convertible_to<float>;
};
template <class C>
concept LogitChooser = requires(C const c) {
  { c.keeps(1.0f, 1.0f) } -> std::same_as<bool>;
};

/// How a stage decides how many of the best chunks stay.
template <class C>
concept ChunkChooser = std::is_trivially_copyable_v<C> && requires(C const c) {
  c.check();
} &&(std::same_as<C, best_chunks> || MassChooser<C> || LogitChooser<C>);

static_assert(ChunkChooser<best_chunks> && ChunkChooser<top_mass> && ChunkChooser<near_best>);

}  // namespace lacuna
