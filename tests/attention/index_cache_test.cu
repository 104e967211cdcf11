#include <lacuna/attention/index_cache.hpp>
#include <lacuna/attention/recall.hpp>
#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include "support/device.cuh"
#include "support/pattern_problem.hpp"

namespace {

using namespace lacuna;
using stages = pruned<chunk_scan<16>, chunk_scan<8>, chunk_scan<4>>;

struct config : attention_defaults<float, 8> {
  using pattern = stages;
  using rope = attend_rope;
};

stages const amounts{.sinks = 8, .window = 24, .stage = {chunk_scan<16>{.keep = 96}, chunk_scan<8>{.keep = 64}, chunk_scan<4>{.keep = 32}}};

TEST_CASE("one recorded graph decodes every step of a schedule as direct launches do, and as the host does") {
  test::device_stream const stream;
  test::pattern_problem p{.shape = {2, 1, 400, 4, 2, 8, 8}, .query_lengths = {1, 1}, .key_lengths = {200, 117}};
  p.fill(1);
  host_rope_table const table{rope_frequencies(1e4, 8), 400};
  std::vector<float> const cosines(table.view().cosines, table.view().cosines + 1600), sines(table.view().sines, table.view().sines + 1600);
  test::place at{stream.exec()};
  rope_table const there{at.put(cosines), at.put(sines), 400, 8};
  auto const attention_with = [&](rope_table const& t) {
    return sparse_attention<config>{amounts, {.rope = {.style = attend_style::streaming, .table = t, .window = 24}}};
  };
  auto const device = attention_with(there), host = attention_with(table.view());
  host_executor const cpu{1};
  auto const plan = device.plan_decode(stream.exec(), p.shape), host_plan = host.plan_decode(cpu, p.shape);
  workspace<cuda_executor> const scratch{stream.exec(), plan.workspace_bytes()};
  workspace<host_executor> const host_scratch{cpu, host_plan.workspace_bytes()};
  refresh_schedule const schedule{.every = {12, 6, 3}, .stagger = 5};
  index_cache<stages, cuda_executor> const direct{stream.exec(), {amounts, amounts}, plan.shape(), schedule},
      replayed{stream.exec(), {amounts, amounts}, plan.shape(), schedule};
  index_cache<stages, host_executor> const right{cpu, {amounts, amounts}, host_plan.shape(), schedule};

  auto* const q = at.make<float>(64);
  auto* const lengths = at.make<std::int32_t>(2);
  auto *const a = at.make<float>(64), *const b = at.make<float>(64);
  contiguous_kv<float> const kv{{at.put(p.k), 2, 400, 2, 8}, {at.put(p.k), 2, 400, 2, 8}};
  auto const io = [&](float* out) { return attention_io<float>{{q, 2, 1, 4, 8}, {out, 2, 1, 4, 8}, {}, {.key_lengths = lengths}}; };
  auto const decode = [&](float* out, auto const& cache) { return device.decode(stream.exec(), plan, scratch, io(out), kv, cache, 1); };
  test::recorded_graph const graph{stream, [&] { return decode(b, replayed); }};
  std::mt19937 engine{2};
  std::normal_distribution<float> normal;
  std::vector<float> c(64);
  for (int step = 0; step < 30; ++step) {
    for (auto& x : p.q) x = normal(engine);
    std::vector<float> const now(p.q.begin(), p.q.begin() + 64);
    at.refill(q, now), at.refill(lengths, p.key_lengths);
    decode(a, direct).or_throw();
    graph.launch();
    auto const in = p.inputs();
    host.decode(cpu, host_plan, host_scratch, {in.q, {c.data(), 2, 1, 4, 8}, {}, {.key_lengths = p.key_lengths.data()}}, in.kv, right, 1)
        .or_throw();
    auto const x = at.get(a, 64);
    CHECK(at.get(b, 64) == x);
    for (int i = 0; i < 64; ++i) CHECK(x[i] == doctest::Approx(c[i]).epsilon(1e-4));
    ++p.key_lengths[0], ++p.key_lengths[1];
  }
}

TEST_CASE("captured mass on a GPU equals the host's") {
  test::device_stream const stream;
  test::pattern_problem p{.shape = {1, 70, 300, 4, 2, 8, 8}};
  p.fill(3);
  host_executor const cpu{2};
  auto const held = test::build_index(cpu, amounts, p);
  std::vector<float> mass(70 * 4);
  recall(cpu, p.inputs(), held.index, {.count = 70}, {mass.data(), 1, 70, 4}).or_throw();
  test::place at{stream.exec()};
  auto const in = p.inputs(at.put(p.q), at.put(p.k), {});
  auto const layout = test::layout_of(amounts, p);
  std::size_t const bytes = index_bytes(layout);
  auto* const memory = at.make<std::byte>(bytes);
  workspace<cuda_executor> const scratch{stream.exec(), pattern_traits<stages>::workspace_bytes(amounts, p.shape)};
  sparse_index const index = make_index(layout, memory);
  build_all(amounts, stream.exec(), in, scratch.data(), index).or_throw();
  auto* const there = at.make<float>(70 * 4);
  recall(stream.exec(), in, index, {.count = 70}, {there, 1, 70, 4}).or_throw();
  auto const back = at.get(there, 70 * 4);
  for (int i = 0; i < 70 * 4; ++i) CHECK(back[i] == doctest::Approx(mass[i]).epsilon(1e-3));
}

}  // namespace
