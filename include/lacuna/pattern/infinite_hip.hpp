#pragma once
#include <lacuna/pattern/pruned.hpp>

namespace lacuna {

/// The paper's three stages, with the rule of the first two open.
template <ChunkRule Rule>
using infinite_hip_of = pruned<chunk_scan<256, Rule>, chunk_scan<32, Rule>, chunk_scan<8, every_token>>;

/// Halving, as the paper has it, and exact scores where they are no dearer.
using infinite_hip = infinite_hip_of<halving>;

/// Every stage scored exactly: the first one costs half of dense attention.
using infinite_hip_exact = infinite_hip_of<every_token>;

/// The rules of the paper's public implementation, so that masks can be compared: middles of halves are probed, the first two stages look
/// at means of four queries, chunks are numbered by rank, one list serves all heads, and scans stop 768 tokens before the block. (Its last
/// 64 queries of a prefill chunk, which see a wider window, are not among them.)
using infinite_hip_parity = pruned<chunk_scan<256, midpoint_halving>, chunk_scan<32, midpoint_halving>, chunk_scan<8, midpoint_halving>>;

/// Where in the model a pattern works: first layers look closer. 0 early layers: none does.
struct infinite_hip_layer {
  int layer = 0;
  int early_layers = 3;
  rope_table table = {};  // null: queries and keys come turned, scans take them as given

  constexpr bool is_early() const { return layer < early_layers; }
};

namespace detail {
template <class Pattern>
Pattern infinite_hip_amounts(infinite_hip_layer const& at, std::int32_t keep) {
  Pattern p;
  p.sinks = 256, p.window = 1024;
  p.stage.template get<0>().keep = 32'768, p.stage.template get<1>().keep = 8'192, p.stage.template get<2>().keep = keep;
  if (at.table.cosines) {
    p.rope.style = at.is_early() ? scan_style::chunk_indexed : scan_style::relative;
    p.rope.table = at.table, p.rope.distance = p.window;
  }
  return p;
}
}  // namespace detail

/// 3K tokens read: 256 sinks, 1024 of the window, 2048 kept (4096 in the first layers). Scans are chunk-indexed in the first layers and
/// relative after them. [InfiniteHiP, section 5 and appendix D]
template <class Pattern = infinite_hip>
Pattern infinite_hip_3k(infinite_hip_layer const& at = {}) {
  return detail::infinite_hip_amounts<Pattern>(at, at.is_early() ? 4'096 : 2'048);
}

/// 5K tokens read: 4096 kept in all layers.
template <class Pattern = infinite_hip>
Pattern infinite_hip_5k(infinite_hip_layer const& at = {}) {
  return detail::infinite_hip_amounts<Pattern>(at, 4'096);
}

/// 3K tokens read by the rules of the public implementation. (Its early layers are 0 to 3 and 31 of 32: the caller says which is which.)
inline infinite_hip_parity infinite_hip_3k_parity(infinite_hip_layer const& at = {}) {
  auto p = infinite_hip_3k<infinite_hip_parity>(at);
  p.scope = mask_scope::layer, p.scan_window = p.window - 256;
  p.stage.get<0>().pool = p.stage.get<1>().pool = 4;
  p.rope.distance = p.scan_window, p.rope.numbers = chunk_numbers::rank, p.rope.first_number = 0;
  return p;
}

/// How attention reads the lists: kept keys close up. The table needs list_keys() positions.
inline attend_rope infinite_hip_rope(rope_table const& table) { return {.style = attend_style::streaming, .table = table, .window = 1024}; }

}  // namespace lacuna
