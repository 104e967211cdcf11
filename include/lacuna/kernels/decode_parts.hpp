#pragma once
#include <lacuna/core/sparse_index.hpp>

namespace lacuna {

/// How the decode kernel cuts a list into parts that blocks attend over: by the list's own length and nothing else, so that a row's result
/// depends neither on the GPU nor on the rest of the batch. Short lists are cut finely, since a few hundred keys take a block no longer
/// than reaching them; long ones coarsely, since each part costs a partial result.
struct decode_parts {
  static constexpr index_t fewest_keys = 256, most_keys = 4096;  // of a part
  static constexpr index_t aim = 64;                             // parts of a list between the two
  static constexpr index_t multiple = 64;                        // keys of a part

  /// Keys of each part but the last.
  LACUNA_HD static constexpr index_t keys_of_part(index_t keys) {
    return round_up(clamp(ceil_div(keys, aim), fewest_keys, most_keys), multiple);
  }

  /// Parts of a list; at least 1.
  LACUNA_HD static constexpr int count(index_t keys) {
    return static_cast<int>(max<index_t>(1, ceil_div(keys, keys_of_part(keys))));
  }

  /// Most parts that a list of at most `keys` keys has.
  LACUNA_HD static constexpr int most(index_t keys) {
    index_t const fine = ceil_div(keys, fewest_keys);
    return static_cast<int>(clamp<index_t>(fine, 1, max(aim, ceil_div(keys, most_keys))));
  }

  /// Keys [begin, end) of a part, counted along the list.
  LACUNA_HD static constexpr span part(index_t keys, int number) {
    index_t const each = keys_of_part(keys);
    return {static_cast<std::int32_t>(min(number * each, keys)), static_cast<std::int32_t>(min((number + 1) * each, keys))};
  }
};

}  // namespace lacuna
