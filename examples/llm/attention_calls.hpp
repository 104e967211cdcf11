#pragma once

// Member functions of basic_attention, for the two files that instantiate it: attention.cpp for the host, cuda_attention.cu for a GPU.

#include <string>
#include <type_traits>

#include <lacuna/lacuna.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include "attention.hpp"
#include "error.hpp"
#include "extended_patterns.hpp"

namespace llm {
namespace detail {

using head_profile = lacuna::per_head<lacuna::a_shape, lacuna::vertical_slash>;

template <class T, class Pattern, int HeadSize>
struct configuration : lacuna::attention_defaults<T, HeadSize> {
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

inline lacuna::a_shape a_shape_of(pattern_spec const& spec) { return {.sinks = spec.first, .window = spec.second}; }
inline lacuna::vertical_slash vertical_slash_of(pattern_spec const& spec) { return {.verticals = spec.first, .slashes = spec.second}; }

inline head_profile profile_of(pattern_spec const& spec, int heads) {
  head_profile result;
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
    default:
      throw error("pattern '" + text_of(spec) + "' runs on the host only; ask for --backend host");
  }
}

/// Calls work(sparse_attention).
template <class T, class Work>
void with_attention(pattern_spec const& spec, basic_attention_tensors<T> const& tensors, layer_place const& place, Work const& work) {
  if constexpr (std::is_same_v<T, float>)
    if (sets_positions(spec)) return with_extended_attention<T>(spec, tensors.head_size(), place, work);
  with_head_size(tensors.head_size(), [&](auto head_size) {
    with_pattern(spec, tensors.query_heads(), [&](auto const& pattern) {
      using config = configuration<T, std::remove_cvref_t<decltype(pattern)>, head_size()>;
      work(lacuna::sparse_attention<config>{pattern});
    });
  });
}

template <class T>
lacuna::attention_shape shape_of(basic_attention_tensors<T> const& t) {
  return {.queries = t.queries(), .keys = t.keys(), .query_heads = t.query_heads(), .kv_heads = t.kv_heads()};
}

template <class T>
lacuna::attention_io<T> io_of(basic_attention_tensors<T> const& t) {
  return {.q = t.q, .out = t.out};
}

template <class T>
lacuna::contiguous_kv<T> kv_of(basic_attention_tensors<T> const& t) {
  return {t.k, t.v};
}

/// What a head of an index in host memory visits.
visited_cells paint(lacuna::sparse_index const& index, lacuna::attention_shape const& shape, int head, std::int64_t cell);

}  // namespace detail

template <class Exec, class T>
lacuna::workspace<Exec> const& basic_attention<Exec, T>::workspace_of(std::size_t bytes) {
  if (!workspace_ || workspace_->bytes() < bytes) {
    workspace_.reset();
    workspace_.emplace(exec_, bytes);
  }
  return *workspace_;
}

template <class Exec, class T>
void basic_attention<Exec, T>::prefill(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place) {
  detail::with_attention(pattern, tensors, place, [&](auto const& attend) {
    auto const plan = attend.plan_prefill(exec_, detail::shape_of(tensors));
    attend.prefill(exec_, plan, workspace_of(plan.workspace_bytes()), detail::io_of(tensors), detail::kv_of(tensors)).or_throw();
  });
}

template <class Exec, class T>
void basic_attention<Exec, T>::decode(tensors_type const& tensors, pattern_spec const& pattern, layer_place const& place) {
  pattern_spec const kept = sets_positions(pattern) ? pattern : pattern_spec{.kind = pattern_kind::dense};
  detail::with_attention(kept, tensors, place, [&](auto const& attend) {
    auto const plan = attend.plan_decode(exec_, detail::shape_of(tensors));
    attend.decode(exec_, plan, workspace_of(plan.workspace_bytes()), detail::io_of(tensors), detail::kv_of(tensors)).or_throw();
  });
}

template <class Exec, class T>
template <class Read>
void basic_attention<Exec, T>::read_index(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place,
                                          Read const& read) {
  detail::with_attention(pattern, tensors, place, [&](auto const& attend) {
    auto const plan = attend.plan_prefill(exec_, detail::shape_of(tensors));
    auto const& scratch = workspace_of(plan.workspace_bytes());
    attend.build(exec_, plan, scratch, detail::io_of(tensors), detail::kv_of(tensors)).or_throw();
    lacuna::workspace<lacuna::host_executor> const copy{lacuna::host_executor{1}, lacuna::index_bytes(plan.layout())};
    exec_.copy(copy.data(), scratch.data(), copy.bytes()).or_throw();
    exec_.synchronize().or_throw();
    read(plan.index(copy.data()), plan.shape());
  });
}

template <class Exec, class T>
lacuna::pair_count basic_attention<Exec, T>::count(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place) {
  lacuna::pair_count count;
  read_index(pattern, tensors, place, [&](auto const& index, auto const& shape) { count = lacuna::visited_pairs(index, shape); });
  return count;
}

template <class Exec, class T>
visited_cells basic_attention<Exec, T>::draw(pattern_spec const& pattern, tensors_type const& tensors, int head, std::int64_t cell) {
  visited_cells cells;
  read_index(pattern, tensors, {}, [&](auto const& index, auto const& shape) { cells = detail::paint(index, shape, head, cell); });
  return cells;
}

}  // namespace llm
