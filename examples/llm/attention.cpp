#include "attention.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include <lacuna/lacuna.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include "error.hpp"

namespace llm {
namespace {

using lacuna::index_t;
using profile = lacuna::per_head<lacuna::a_shape, lacuna::vertical_slash>;

template <class Pattern, int HeadSize>
struct configuration : lacuna::attention_defaults<float, HeadSize> {
  using pattern = Pattern;
};

/// Calls work(std::integral_constant<int, head_size>), if that size is built.
template <class Work>
void with_head_size(int head_size, Work const& work) {
  switch (head_size) {
    case 32:
      return work(std::integral_constant<int, 32>{});
    case 64:
      return work(std::integral_constant<int, 64>{});
    case 80:
      return work(std::integral_constant<int, 80>{});
    case 96:
      return work(std::integral_constant<int, 96>{});
    case 128:
      return work(std::integral_constant<int, 128>{});
    default:
      throw error("head size is " + std::to_string(head_size) + ", expected one of those built here: 32, 64, 80, 96, 128");
  }
}

lacuna::a_shape a_shape_of(pattern_spec const& spec) { return {.sinks = spec.first, .window = spec.second}; }
lacuna::vertical_slash vertical_slash_of(pattern_spec const& spec) { return {.verticals = spec.first, .slashes = spec.second}; }

profile profile_of(pattern_spec const& spec, int heads) {
  profile result;
  for (int head = 0; head < heads; ++head) {
    auto const own = pattern_of_head(spec, head);
    if (own.kind == pattern_kind::a_shape) {
      result.heads.emplace_back(a_shape_of(own));
    } else {
      result.heads.emplace_back(vertical_slash_of(own));
    }
  }
  return result;
}

/// Calls work(pattern) with the library's type for it.
template <class Work>
void with_pattern(pattern_spec const& spec, int heads, Work const& work) {
  switch (spec.kind) {
    case pattern_kind::dense:
      return work(lacuna::dense{});
    case pattern_kind::a_shape:
      return work(a_shape_of(spec));
    case pattern_kind::vertical_slash:
      return work(vertical_slash_of(spec));
    case pattern_kind::block_sparse:
      return work(lacuna::block_sparse{.keep_blocks = spec.first});
    case pattern_kind::per_head:
      return work(profile_of(spec, heads));
  }
}

/// Calls work(sparse_attention).
template <class Work>
void with_attention(pattern_spec const& spec, attention_tensors const& tensors, Work const& work) {
  with_head_size(tensors.head_size(), [&](auto head_size) {
    with_pattern(spec, tensors.query_heads(), [&](auto const& pattern) {
      using config = configuration<std::remove_cvref_t<decltype(pattern)>, head_size()>;
      work(lacuna::sparse_attention<config>{pattern});
    });
  });
}

lacuna::attention_shape shape_of(attention_tensors const& t) {
  return {.queries = t.queries(), .keys = t.keys(), .query_heads = t.query_heads(), .kv_heads = t.kv_heads()};
}

lacuna::attention_io<float> io_of(attention_tensors const& t) { return {.q = t.q, .out = t.out}; }
lacuna::contiguous_kv<float> kv_of(attention_tensors const& t) { return {t.k, t.v}; }

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

visited_cells paint(lacuna::sparse_index const& index, attention_tensors const& t, int head, index_t cell) {
  lacuna::sequence const sequence{.first_query = 0, .queries = t.queries(), .first_key = 0, .keys = t.keys()};
  visited_cells cells{.rows = (t.queries() + cell - 1) / cell, .columns = (t.keys() + cell - 1) / cell, .share = {}};
  cells.share.resize(static_cast<std::size_t>(cells.rows * cells.columns));
  int const list = lacuna::list_head(head, t.query_heads(), index.heads);
  std::vector<float> causal(cells.share.size());
  for (index_t query = 0; query < t.queries(); ++query) {
    auto const position = sequence.position(query);
    auto const row = query / cell * cells.columns;
    tile_painter(index, sequence, list, query / index.tile_rows).paint(position, cell, cells.share.data() + row);
    for (index_t key = 0; key <= position; ++key) causal[static_cast<std::size_t>(row + key / cell)] += 1;
  }
  for (std::size_t i = 0; i < causal.size(); ++i) cells.share[i] /= std::max(causal[i], 1.0F);
  return cells;
}

}  // namespace

void attention::check_head_size(int head_size) {
  with_head_size(head_size, [](auto) {});
}

lacuna::workspace<lacuna::host_executor> const& attention::workspace_of(std::size_t bytes) {
  if (!workspace_ || workspace_->bytes() < bytes) {
    workspace_.reset();
    workspace_.emplace(exec_, bytes);
  }
  return *workspace_;
}

void attention::prefill(pattern_spec const& pattern, attention_tensors const& tensors) {
  with_attention(pattern, tensors, [&](auto const& attend) {
    auto const plan = attend.plan_prefill(exec_, shape_of(tensors));
    attend.prefill(exec_, plan, workspace_of(plan.workspace_bytes()), io_of(tensors), kv_of(tensors)).or_throw();
  });
}

void attention::decode(attention_tensors const& tensors) {
  with_attention({.kind = pattern_kind::dense}, tensors, [&](auto const& attend) {
    auto const plan = attend.plan_decode(exec_, shape_of(tensors));
    attend.decode(exec_, plan, workspace_of(plan.workspace_bytes()), io_of(tensors), kv_of(tensors)).or_throw();
  });
}

/// Builds the pattern's index alone and hands it to `read`.
template <class Read>
void attention::read_index(pattern_spec const& pattern, attention_tensors const& tensors, Read const& read) {
  with_attention(pattern, tensors, [&](auto const& attend) {
    auto const plan = attend.plan_prefill(exec_, shape_of(tensors));
    auto const& scratch = workspace_of(plan.workspace_bytes());
    attend.build(exec_, plan, scratch, io_of(tensors), kv_of(tensors)).or_throw();
    read(plan.index(scratch.data()), plan.shape());
  });
}

lacuna::pair_count attention::count(pattern_spec const& pattern, attention_tensors const& tensors) {
  lacuna::pair_count count;
  read_index(pattern, tensors, [&](auto const& index, auto const& shape) { count = lacuna::visited_pairs(index, shape); });
  return count;
}

visited_cells attention::draw(pattern_spec const& pattern, attention_tensors const& tensors, int head, std::int64_t cell) {
  visited_cells cells;
  read_index(pattern, tensors, [&](auto const& index, auto const&) { cells = paint(index, tensors, head, cell); });
  return cells;
}

}  // namespace llm
