#pragma once
#include "support/attention_on.hpp"

#include <doctest/doctest.h>
#include <lacuna/kernels/top_k.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <algorithm>
#include <numeric>

/// Faults that users of other attention kernels reported, as checks that any executor must pass. The number after each name is the row
/// of the list; the public report stands behind it.
namespace known_faults {

using test::call_data, test::config_of, lacuna::index_t;

template <class T, int D, class Pattern, class Exec>
auto call(Exec const& exec, Pattern const& pattern, call_data<T> const& data, lacuna::attention_options const& options = {}) {
  return test::call_on{exec, lacuna::sparse_attention<config_of<T, D, Pattern>>{pattern, options}, data};
}

inline bool zero(std::vector<float> const& out, std::size_t row, int dim) {
  return std::all_of(out.begin() + row * dim, out.begin() + (row + 1) * dim, [](float x) { return x == 0; });
}

/// 1, flashinfer-ai/flashinfer#4452: queries before the first key.
template <class Exec>
void fully_masked_rows(Exec const& exec) {
  call_data<lacuna::bfloat16> data{.shape = {1, 3, 1, 1, 1, 64, 64}};
  data.randomize(1);
  auto const r = call<lacuna::bfloat16, 64>(exec, lacuna::dense{}, data).run_and_read();
  for (int row : {0, 1}) {
    CHECK(zero(r.out, row, 64));
    CHECK(r.lse[row] == -lacuna::infinity);
  }
  for (int d = 0; d < 64; ++d) CHECK(r.out[2 * 64 + d] == lacuna::to_float(data.v[d]));
  CHECK(std::isfinite(r.lse[2]));
}

/// 2, vllm-project/vllm#57094: an empty sequence between others; outputs start as NaN.
template <class Exec>
void empty_sequences(Exec const& exec) {
  call_data<float> data{.shape = {3, 1, 7, 4, 2, 32, 32}, .key_lengths = {5, 0, 7}};
  data.randomize(2);
  auto const together = call<float, 32>(exec, lacuna::dense{}, data).run_and_read();
  int const width = 4 * 32;
  for (int h = 0; h < 4; ++h) {
    CHECK(zero(together.out, 4 + h, 32));
    CHECK(together.lse[4 + h] == -lacuna::infinity);
  }
  for (int b : {0, 2}) {
    call_data<float> alone{.shape = {1, 1, data.key_lengths[b], 4, 2, 32, 32}};
    alone.q.assign(data.q.begin() + b * width, data.q.begin() + (b + 1) * width);
    alone.k.assign(data.k.begin() + b * 7 * 64, data.k.begin() + (b * 7 + data.key_lengths[b]) * 64);
    alone.v.assign(data.v.begin() + b * 7 * 64, data.v.begin() + (b * 7 + data.key_lengths[b]) * 64);
    auto const single = call<float, 32>(exec, lacuna::dense{}, alone).run_and_read();
    CHECK(std::equal(single.out.begin(), single.out.end(), together.out.begin() + b * width));
    CHECK(std::equal(single.lse.begin(), single.lse.end(), together.lse.begin() + b * 4));
  }
}

/// 3, flashinfer-ai/flashinfer#4451: one valid logit of -65536; the masked key before it would give +65536.
template <class T, class Exec>
void extreme_logits(Exec const& exec) {
  call_data<T> data{.shape = {1, 1, 2, 1, 1, 64, 64}};
  data.randomize(3);
  std::fill(data.q.begin(), data.q.end(), lacuna::from_float<T>(-32));
  std::fill_n(data.k.begin(), 64, lacuna::from_float<T>(-32));
  std::fill_n(data.k.begin() + 64, 64, lacuna::from_float<T>(32));
  auto const r = call<T, 64>(exec, lacuna::sliding_window{1}, data, {.scale = 1}).run_and_read();
  for (int d = 0; d < 64; ++d) CHECK(r.out[d] == lacuna::to_float(data.v[64 + d]));
  CHECK(r.lse[0] == doctest::Approx(-65536).epsilon(1e-6));
}

/// Ascending indices of the `keep` best, of equal scores the lower ones.
inline std::vector<std::int32_t> best(std::vector<float> const& scores, index_t keep) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  order.resize(std::min<std::size_t>(order.size(), keep));
  std::sort(order.begin(), order.end());
  return order;
}

/// What top_k_rows chooses of one row; `room` entries, those past the choice keep 123456.
template <class Exec>
std::vector<std::int32_t> chosen(Exec const& exec, std::vector<float> const& scores, index_t keep, std::size_t room) {
  test::place<Exec> at{exec};
  auto* const out = at.put(std::vector<std::int32_t>(room, 123456));
  auto* const count = at.put(std::vector<std::int32_t>{-1});
  lacuna::top_k_rows const body{at.put(scores), 1, static_cast<index_t>(scores.size()), keep, out, count};
  exec.launch({body.blocks(), 128}, body).or_throw();
  auto all = at.get(out, room);
  auto const n = static_cast<std::size_t>(at.get(count, 1)[0]);
  CHECK(n == std::min<std::size_t>(scores.size(), keep));
  for (std::size_t i = n; i < room; ++i) REQUIRE(all[i] == 123456);
  all.resize(n);
  return all;
}

inline std::vector<float> scores_with_ties(std::size_t count, int ties_in_ten) {
  auto scores = test::normals<float>(count, 5);
  std::mt19937 engine{7};
  for (auto& x : scores)
    if (static_cast<int>(engine() % 10) < ties_in_ten) x = engine() % 2 ? 0.0f : -0.0f;
  return scores;
}

/// 4, sgl-project/sglang#31115: most scores tie, zeros of both signs.
template <class Exec>
void top_k_ties(Exec const& exec) {
  auto const scores = scores_with_ties(4096, 7);
  auto const right = best(scores, 2048);
  for (int launch = 0; launch < 50; ++launch) REQUIRE(chosen(exec, scores, 2048, 2048) == right);
}

/// 5, NVIDIA-NeMo/Automodel#3035: fewer entries than asked for, none, exactly as many.
template <class Exec>
void more_asked_than_there(Exec const& exec) {
  for (std::size_t const n : {0, 1, 249, 2048}) {
    auto const scores = test::normals<float>(n, 9);
    CHECK(chosen(exec, scores, 2048, 2048) == best(scores, 2048));
  }
  call_data<float> data{.shape = {1, 249, 249, 2, 1, 16, 16}};
  data.randomize(4);
  auto const dense = call<float, 16>(exec, lacuna::dense{}, data).run_and_read();
  CHECK(test::excess<float>(call<float, 16>(exec, lacuna::block_sparse{2048}, data).run_and_read(), dense) <= 2);
  CHECK(test::excess<float>(call<float, 16>(exec, lacuna::vertical_slash{2048, 2048}, data).run_and_read(), dense) <= 2);
}

/// 7, fla-org/flash-linear-attention#1029: groups of 6, 7 and 5; groups that do not divide are refused.
template <class Exec>
void odd_groups(Exec const& exec) {
  for (auto const& [heads, kv] : {std::pair{12, 2}, {28, 4}, {40, 8}}) {
    test::attend_problem<lacuna::bfloat16> const problem{{.shape = {1, 9, 40, heads, kv, 32, 32}}};
    CHECK(test::excess<lacuna::bfloat16>(problem.run(exec), problem.oracle()) <= 1);
  }
  lacuna::sparse_attention<config_of<float, 64, lacuna::dense>> const attention;
  for (auto const& [heads, kv] : {std::pair{33, 2}, {3, 2}})
    CHECK_THROWS_AS(static_cast<void>(attention.plan_prefill(exec, {1, 4, 4, heads, kv})), lacuna::invalid_argument);
}

/// 9, flashinfer-ai/flashinfer#3716: with q = 0 the output is the mean of V, so a tail counted or lost shows. What lies behind is NaN.
template <class Pattern, class Exec>
void tails(Exec const& exec, Pattern const& pattern) {
  for (int const keys : {1, 63, 64, 65, 70, 255, 256, 257}) {
    call_data<float> data{.shape = {1, 1, 320, 1, 1, 16, 16}, .key_lengths = {keys}};
    data.randomize(6);
    std::fill(data.q.begin(), data.q.end(), 0.0f);
    std::fill(data.k.begin() + keys * 16, data.k.end(), NAN);
    std::fill(data.v.begin() + keys * 16, data.v.end(), NAN);
    auto const r = call<float, 16>(exec, pattern, data, {.causal = false}).run_and_read();
    for (int d = 0; d < 16; ++d) {
      double mean = 0;
      for (int key = 0; key < keys; ++key) mean += data.v[key * 16 + d] / double(keys);
      CHECK(r.out[d] == doctest::Approx(mean).epsilon(1e-5));
    }
    CHECK(r.lse[0] == doctest::Approx(std::log(double(keys))));
  }
}

/// 10, microsoft/MInference#53: every (batch, head, token) has a list of its own, and lengths differ.
template <class Exec>
void lists_of_every_row(Exec const& exec) {
  for (auto const kind : {test::lists::mixed, test::lists::members})
    for (unsigned const seed : {1, 2, 3}) {
      test::attend_problem<float> const problem{
          {.shape = {2, 5, 8, 4, 2, 16, 16}, .lists = kind, .tile_rows = 1, .query_lengths = {5, 3}, .key_lengths = {8, 6}, .seed = seed}};
      CHECK(test::excess<float>(problem.run(exec), problem.oracle()) <= 1);
    }
}

/// 13, flashinfer-ai/flashinfer#311: q, k and v are views of one projection [tokens, heads + 2 kv heads, dim].
template <class Exec>
void fused_projection(Exec const& exec) {
  index_t const n = 70, heads = 4, kv = 2, d = 16, width = (heads + 2 * kv) * d;
  call_data<float> data{.shape = {1, n, n, int(heads), int(kv), int(d), int(d)}};
  data.randomize(8);
  std::vector<float> fused(n * width);
  for (index_t t = 0; t < n; ++t) {
    std::copy_n(&data.q[t * heads * d], heads * d, &fused[t * width]);
    std::copy_n(&data.k[t * kv * d], kv * d, &fused[t * width + heads * d]);
    std::copy_n(&data.v[t * kv * d], kv * d, &fused[t * width + (heads + kv) * d]);
  }
  auto each = call<float, 16>(exec, lacuna::a_shape{3, 20}, data);
  auto const compact = each.run_and_read();
  each.poison();
  float* const memory = each.at().put(fused);
  auto const part = [&](index_t first, index_t count) {
    return lacuna::tensor_view<float const, 4>{memory + first * d, {1, n, count, d}, {n * width, width, d, 1}};
  };
  each.io().q = part(0, heads);
  each.kv() = {part(heads, kv), part(heads + kv, kv)};
  CHECK(each.run_and_read() == compact);
}

/// 17, flashinfer-ai/flashinfer#1367: more candidates than any buffer.
template <class Exec>
void many_candidates(Exec const& exec) {
  for (int const ties : {0, 5, 10}) {
    auto const scores = scores_with_ties(40'000, ties);
    for (index_t const keep : {1, 2048, 20'000, 39'999}) CHECK(chosen(exec, scores, keep, 40'000) == best(scores, keep));
  }
}

/// 19, microsoft/MInference#165: verticals and slashes in any order, some twice, some of no use.
template <class Exec>
void unsorted_repeated_sets(Exec const& exec) {
  lacuna::attention_shape const shape{1, 200, 200, 2, 1, 16, 16};
  auto const lists_of = [&](std::vector<std::int32_t> const& verticals, std::vector<std::int32_t> const& distances) {
    test::place<Exec> at{exec};
    auto const both = [](std::vector<std::int32_t> set) {  // the same for both lists
      auto const count = set.size();
      for (std::size_t i = 0; i < count; ++i) set.push_back(set[i]);
      return set;
    };
    lacuna::slash_sets sets;
    sets.verticals = lacuna::tensor_view<std::int32_t const, 3>(at.put(both(verticals)), 1, 2, static_cast<index_t>(verticals.size()));
    sets.distances = lacuna::tensor_view<std::int32_t const, 3>(at.put(both(distances)), 1, 2, static_cast<index_t>(distances.size()));
    lacuna::index_layout const layout{1, 2, 200, 64, 1, true, lacuna::slash_sets_capacity(shape, sets)};
    std::size_t const bytes = lacuna::index_bytes(layout);
    auto* const memory = at.template make<std::byte>(bytes);
    auto* const scratch = at.template make<std::byte>(lacuna::slash_sets_workspace_bytes(shape, sets));
    lacuna::build_slash_sets(exec, shape, {}, sets, scratch, lacuna::make_index(layout, memory)).or_throw();
    auto image = at.get(memory, bytes);
    return test::lists_of(lacuna::make_index(layout, image.data()), shape, {});
  };
  auto const sorted = lists_of({0, 3, 17, 64, 150}, {0, 1, 2, 70, 131});
  CHECK(!sorted.empty());
  CHECK(lists_of({150, 17, 3, 3, 0, 64, 17, -1, 5000}, {131, 0, 2, 70, 1, 1, 0, 70, 0x7fffffff}) == sorted);
}

}  // namespace known_faults
