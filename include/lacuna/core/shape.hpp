#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>

namespace lacuna {

/// Sizes of one attention problem. As plan input they are capacities: a run may have fewer tokens.
struct attention_shape {
  index_t batch = 1;
  index_t queries = 0;  // most query tokens of one sequence
  index_t keys = 0;     // most key tokens of one sequence
  int query_heads = 0;
  int kv_heads = 0;   // divides query_heads
  int key_dim = 0;    // of queries and keys; a multiple of 8 up to 256
  int value_dim = 0;  // of values and outputs; likewise

  LACUNA_HD constexpr int group() const { return query_heads / kv_heads; }
  LACUNA_HD constexpr int kv_head(int query_head) const { return query_head / group(); }
};

/// The head of a list of `lists` heads that serves query head `head` of `heads`: lists are per layer (1), per KV head or per query head.
LACUNA_HD constexpr int list_head(int head, int heads, int lists) { return static_cast<int>(index_t{head} * lists / heads); }

inline constexpr index_t max_tokens = index_t{1} << 30;  // token positions are stored in 32 bits, with room for sums

inline constexpr int max_heads = 0x7fff;               // list numbers are stored in 16 bits
inline constexpr index_t max_rows = index_t{1} << 40;  // batch * tokens * heads: sizes in bytes then stay within 64 bits

inline void check_head_dim(char const* name, int dim) {
  require(dim >= 8 && dim <= 256 && dim % 8 == 0, name, " is ", dim, "; expected a multiple of 8 from 8 to 256");
}

/// Throws invalid_argument unless the shape is one that every portable body takes.
inline void check(attention_shape const& s) {
  require(s.batch >= 0 && s.batch <= max_tokens, "batch is ", s.batch, "; expected 0 to 2^30");
  require(s.queries >= 0 && s.queries <= max_tokens, "queries is ", s.queries, "; expected 0 to 2^30");
  require(s.keys >= 0 && s.keys <= max_tokens, "keys is ", s.keys, "; expected 0 to 2^30");
  require(s.kv_heads > 0, "kv_heads is ", s.kv_heads, "; expected at least 1");
  require(s.query_heads > 0 && s.query_heads % s.kv_heads == 0, "query_heads is ", s.query_heads,
          "; expected a positive multiple of kv_heads ", s.kv_heads);
  require(s.query_heads <= max_heads, "query_heads is ", s.query_heads, "; expected at most ", max_heads);
  require(s.batch <= max_rows / max<index_t>(1, max(s.queries, s.keys)) / s.query_heads, "batch ", s.batch, " of ", max(s.queries, s.keys),
          " tokens and ", s.query_heads, " heads is more than 2^40 rows");
  check_head_dim("key_dim", s.key_dim);
  check_head_dim("value_dim", s.value_dim);
}

/// Where each sequence's tokens lie and how many there are, read when a run executes (device memory under CUDA). All null: every
/// sequence has the full capacity. Offsets describe packed batches: sequence b is tokens [offsets[b], offsets[b + 1]) and tensors have
/// batch stride 0. A packed sequence's length may be less than its offsets leave room for. Lengths below 0 count as 0, above the room, packed or the
/// capacity, as the room.
struct sequence_lengths {
  std::int32_t const* query_offsets = nullptr;  // [batch + 1]
  std::int32_t const* key_offsets = nullptr;    // [batch + 1]
  std::int32_t const* query_lengths = nullptr;  // [batch]
  std::int32_t const* key_lengths = nullptr;    // [batch]
};

/// One sequence of the batch. Queries are the last positions: query i stands at position keys - queries + i (bottom-right alignment).
struct sequence {
  index_t first_query, queries;
  index_t first_key, keys;

  LACUNA_HD constexpr index_t position(index_t query) const { return keys - queries + query; }
};

LACUNA_HD inline sequence sequence_at(sequence_lengths const& l, attention_shape const& s, index_t b) {
  auto const count = [&](std::int32_t const* lengths, std::int32_t const* offsets, index_t most) {
    index_t const room = offsets ? min(index_t{offsets[b + 1]} - offsets[b], most) : most;
    return clamp<index_t>(lengths ? min<index_t>(lengths[b], room) : room, 0, most);
  };
  return {l.query_offsets ? l.query_offsets[b] : 0, count(l.query_lengths, l.query_offsets, s.queries),
          l.key_offsets ? l.key_offsets[b] : 0, count(l.key_lengths, l.key_offsets, s.keys)};
}

}  // namespace lacuna
