#include "attention.hpp"

#include <algorithm>

#include "attention_calls.hpp"

namespace llm {
namespace {

using lacuna::index_t;

/// Query rows of one tile of an index, adding up what they visit.
class tile_painter {
 public:
  tile_painter(lacuna::sparse_index const& index, lacuna::sequence const& sequence, int list, index_t tile)
      : row_(index.row(sequence, 0, list, tile)), rule_(index.rules[index.head_at(0, list)]) {}

  /// Adds the keys that the query at `position` visits to its row of cells.
  void paint(index_t position, index_t cell, float* cells) const {
    for (int entry = 0; entry < row_.span_count(); ++entry) {
      auto const keys = row_.span_at(entry);
      for (index_t key = keys.begin; key < std::min<index_t>(keys.end, position + 1); ++key) {
        if (rule_.visible(position, key)) cells[key / cell] += 1;
      }
    }
    for (int column = 0; column < row_.column_count; ++column) {
      index_t const key = row_.columns[column];
      if (row_.reads_column(column) && key <= position) cells[key / cell] += 1;
    }
  }

 private:
  lacuna::index_row row_;
  lacuna::head_rule rule_;
};

}  // namespace

visited_cells detail::paint(lacuna::sparse_index const& index, lacuna::attention_shape const& shape, int head, std::int64_t cell) {
  lacuna::sequence const sequence{.first_query = 0, .queries = shape.queries, .first_key = 0, .keys = shape.keys};
  visited_cells cells{.rows = (shape.queries + cell - 1) / cell, .columns = (shape.keys + cell - 1) / cell, .share = {}};
  cells.share.resize(static_cast<std::size_t>(cells.rows * cells.columns));
  int const list = lacuna::list_head(head, shape.query_heads, index.heads);
  std::vector<float> causal(cells.share.size());
  for (index_t query = 0; query < shape.queries; ++query) {
    auto const position = sequence.position(query);
    auto const row = query / cell * cells.columns;
    tile_painter(index, sequence, list, query / index.tile_rows).paint(position, cell, cells.share.data() + row);
    for (index_t key = 0; key <= position; ++key) causal[static_cast<std::size_t>(row + key / cell)] += 1;
  }
  for (std::size_t i = 0; i < causal.size(); ++i) cells.share[i] /= std::max(causal[i], 1.0F);
  return cells;
}

void check_head_size(int head_size) {
  detail::with_head_size(head_size, [](auto) {});
}

template class basic_attention<lacuna::host_executor, float>;

}  // namespace llm
