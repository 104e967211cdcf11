#pragma once
#include <lacuna/pattern/pruned.hpp>

#include <algorithm>
#include <random>

namespace test {

/// Any style with small amounts.
inline lacuna::scan_rope random_rope(std::mt19937& engine, lacuna::rope_table const& table) {
  return {.style = lacuna::scan_style(engine() % 5),
          .table = table,
          .distance = std::int32_t(1 + engine() % 40),
          .numbers = engine() % 2 ? lacuna::chunk_numbers::grid : lacuna::chunk_numbers::rank,
          .first_number = std::int32_t(engine() % 2),
          .trained = std::int32_t(20 + engine() % 100),
          .near = std::int32_t(engine() % 60)};
}

/// Amounts around the stages that vary.
template <class... Stages>
lacuna::pruned<Stages...> random_amounts(std::mt19937& engine, lacuna::rope_table const& table,
                                         lacuna::stage_list<Stages...> const& stage) {
  lacuna::pruned<Stages...> p{.sinks = std::int32_t(engine() % 3 * 8),
                              .window = std::int32_t(16 + engine() % 30),
                              .scope = lacuna::mask_scope(engine() % 3),
                              .query_stride = std::int32_t(1 + engine() % 3),
                              .rope = random_rope(engine, table),
                              .stage = stage};
  if (engine() % 3 == 0) p.scan_window = std::int32_t(1 + engine() % 60);
  if (p.reads_summaries && p.scan_window > 0) p.scan_window = std::max(p.scan_window, std::int32_t{p.chunks[0]});
  return p;
}

}  // namespace test
