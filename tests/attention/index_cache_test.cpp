#include <lacuna/attention/index_cache.hpp>
#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/pattern_problem.hpp"
#include "support/place.hpp"

namespace {

using namespace lacuna;
using stages = pruned<chunk_scan<16>, chunk_scan<8>, chunk_scan<4>>;

stages const amounts{.sinks = 8, .window = 24, .stage = {chunk_scan<16>{.keep = 96}, chunk_scan<8>{.keep = 64}, chunk_scan<4>{.keep = 32}}};

/// Decode steps of two sequences, each with a query of its own at every step.
struct run {
  test::pattern_problem p;
  std::vector<float> queries;  // [steps, batch, heads, dim]
  int steps;

  explicit run(int step_count, unsigned seed) : steps{step_count} {
    p.shape = {2, 1, 400, 4, 2, 8, 8};
    p.key_lengths = {200, 117};
    p.query_lengths = {1, 1};
    p.fill(seed);
    std::mt19937 engine{seed + 1};
    std::normal_distribution<float> normal;
    queries.resize(static_cast<std::size_t>(steps) * 2 * 4 * 8);
    for (auto& x : queries) x = normal(engine);
  }

  /// Puts step `i` before the pattern: one more key each, a new query.
  void at(int i) {
    std::copy_n(queries.begin() + i * 64, 64, p.q.begin());
    if (i > 0) ++p.key_lengths[0], ++p.key_lengths[1];
  }
};

/// Lists of one layer, straight from the cache.
template <class Exec>
struct cached {
  Exec const& exec;
  index_cache<stages, Exec> cache;
  test::held_index held;
  workspace<Exec> scratch;

  cached(Exec const& e, int layers, run const& r, refresh_schedule const& schedule)
      : exec{e},
        cache{e, std::vector<stages>(layers, amounts), r.p.shape, schedule},
        held{test::layout_of(amounts, r.p)},
        scratch{e, amounts.scratch_bytes(r.p.shape)} {}

  std::vector<std::vector<std::int32_t>> step(run const& r, int layer = 0) {
    cache.build(r.p.inputs(), layer, scratch.data(), held.index).or_throw();
    return lists(r, held.index);
  }

  static std::vector<std::vector<std::int32_t>> lists(run const& r, sparse_index const& index) {
    std::vector<std::vector<std::int32_t>> all;
    for (index_t b = 0; b < 2; ++b)
      for (int list = 0; list < 2; ++list) {
        auto const keys = test::keys_of(index, r.p.sequence(b), b, list, 0);
        CHECK(keys.sound);
        all.push_back(keys.keys);
      }
    return all;
  }
};

host_executor const host{2};

/// What the schedule means, decided by the host: the stage to start from at a step, or none.
int first_due(refresh_schedule const& s, int step, int ahead) {
  for (int i = 0; i < 3; ++i)
    if (step == 0 || (step + ahead) % s.every[i] == 0) return i;
  return 3;
}

TEST_CASE_TEMPLATE("stages run when the schedule says so and keep their lists between", Exec, host_executor, test::threaded_executor) {
  Exec const exec{2};
  refresh_schedule const schedule{.every = {12, 6, 3}, .stagger = 5};
  for (int const layer : {0, 2}) {
    run r{40, 3};
    cached<Exec> c{exec, 3, r, schedule};
    workspace<Exec> const kept{exec, amounts.kept_bytes(r.p.shape)}, scratch{exec, amounts.scratch_bytes(r.p.shape)};
    test::held_index right{test::layout_of(amounts, r.p)};
    scan_memory const memory{kept.data(), scratch.data(), r.p.shape};
    for (int i = 0; i < r.steps; ++i) {
      r.at(i);
      auto const read = c.step(r, layer);
      amounts.scan(exec, r.p.inputs(), true, memory, {}, first_due(schedule, i, 5 * layer)).or_throw();
      amounts.write(exec, r.p.shape, r.p.lengths(), memory, right.index).or_throw();
      CHECK_MESSAGE(read == c.lists(r, right.index), "step ", i);
    }
  }
}

TEST_CASE("a refresh at every step is no cache at all, and rarer ones change lists") {
  run r{20, 4};
  cached<host_executor> always{host, 1, r, {}}, rarely{host, 1, r, refresh_default};
  int differ = 0;
  for (int i = 0; i < r.steps; ++i) {
    r.at(i);
    auto const right = test::build_index(host, amounts, r.p);
    CHECK(always.step(r) == always.lists(r, right.index));
    differ += rarely.step(r) != always.lists(r, right.index);
  }
  CHECK(differ > 10);
}

TEST_CASE("tokens that leave the window between refreshes stay attended") {
  run r{90, 5};
  cached<host_executor> c{host, 1, r, {.every = {96, 96, 96}}};
  for (int i = 0; i < r.steps; ++i) {
    r.at(i);
    auto const lists = c.step(r);
    for (index_t b = 0; b < 2; ++b)
      for (int list = 0; list < 2; ++list) {
        auto const& keys = lists[b * 2 + list];
        index_t const first_window = (b == 0 ? 200 : 117) - 1 - amounts.window, now = r.p.key_lengths[b];
        CHECK(std::count_if(keys.begin(), keys.end(), [&](index_t k) { return k >= first_window; }) == now - first_window);
      }
  }
}

TEST_CASE("a run from any stage equals a full run when nothing changed") {
  run r{1, 6};
  workspace<host_executor> const kept{host, amounts.kept_bytes(r.p.shape)}, scratch{host, amounts.scratch_bytes(r.p.shape)};
  scan_memory const memory{kept.data(), scratch.data(), r.p.shape};
  amounts.scan(host, r.p.inputs(), true, memory).or_throw();
  std::vector<std::byte> const full(kept.data(), kept.data() + kept.bytes());
  for (int const from : {0, 1, 2, 3}) {
    amounts.scan(host, r.p.inputs(), true, memory, {}, from).or_throw();
    auto const before = amounts.kept(const_cast<std::byte*>(full.data()), r.p.shape), after = amounts.kept(kept.data(), r.p.shape);
    for (int i = 0; i < 3; ++i)
      for (index_t row = 0; row < 4; ++row) {
        REQUIRE(after[i].count[row] == before[i].count[row]);
        CHECK(std::equal(after[i].chunks_of(row), after[i].chunks_of(row) + after[i].count[row], before[i].chunks_of(row)));
      }
  }
}

TEST_CASE("a sequence that starts anew, or has become shorter, refreshes alone") {
  run r{30, 7};
  cached<host_executor> c{host, 2, r, {.every = {100, 100, 100}}};
  for (int i = 0; i < 5; ++i) r.at(i), c.step(r);
  auto const old = c.step(r);
  std::mt19937 engine{8};
  std::normal_distribution<float> normal;
  for (auto& x : r.p.q) x = normal(engine);
  CHECK(c.step(r) == old);
  c.cache.restart(1).or_throw();
  auto const right = c.lists(r, test::build_index(host, amounts, r.p).index);
  auto const read = c.step(r);
  CHECK(read[0] == old[0]);
  CHECK(read[2] == right[2]);
  CHECK(read[3] == right[3]);
  CHECK(right[0] != old[0]);

  r.p.key_lengths[0] = 150;
  auto const shorter = c.lists(r, test::build_index(host, amounts, r.p).index);
  CHECK(c.step(r)[0] == shorter[0]);
}

/// Lists of a sequence that was not known before.
template <class Exec>
std::vector<std::vector<std::int32_t>> anew(cached<Exec> const& c, run const& r) {
  return c.lists(r, test::build_index(c.exec, amounts, r.p).index);
}

TEST_CASE_TEMPLATE("a sequence whose lists cannot fit starts anew by itself", Exec, host_executor, test::threaded_executor) {
  Exec const exec{2};
  run r{30, 11};
  r.p.shape.queries = 4;
  r.p.q.resize(2 * 4 * 4 * 8);
  std::mt19937 engine{12};
  std::normal_distribution<float> normal;
  for (auto& x : r.p.q) x = normal(engine);
  r.p.query_lengths = {1, 0};
  cached<Exec> c{exec, 1, r, {.every = {100, 100, 100}}};
  c.step(r);  // sequence 1 has no query yet
  r.p.query_lengths = {4, 1};
  ++r.p.key_lengths[0];
  CHECK(c.step(r) == anew(c, r));  // more queries than before
  for (auto& x : r.p.q) x = normal(engine);
  r.p.key_lengths[0] += 4;
  auto const kept = c.step(r);
  CHECK(kept != anew(c, r));
  r.p.key_lengths[0] += 5;  // more than a step's tokens
  auto const grown = c.step(r), right = anew(c, r);
  CHECK(grown[0] == right[0]);
  CHECK(grown[1] == right[1]);
  r.p.key_lengths[0] -= 1;
  CHECK(c.step(r)[0] == anew(c, r)[0]);
}

TEST_CASE("a stage that reads summaries makes them whenever it runs, whatever the scratch holds") {
  using summaries = pruned<block_mean<16>, chunk_scan<4>>;
  summaries const p{.sinks = 8, .window = 24, .stage = {block_mean<16>{.keep = 96}, chunk_scan<4>{.keep = 32}}};
  run r{1, 13};
  index_cache<summaries, host_executor> const cache{host, {p}, r.p.shape, {.every = {100, 100}}};
  test::held_index held{test::layout_of(p, r.p)};
  workspace<host_executor> const scratch{host, p.scratch_bytes(r.p.shape)};
  for (std::int32_t const keys : {200, 150}) {
    r.p.key_lengths[0] = keys;
    std::fill_n(scratch.data(), scratch.bytes(), std::byte{0xff});
    cache.build(r.p.inputs(), 0, scratch.data(), held.index).or_throw();
    auto const right = test::build_index(host, p, r.p);
    for (int list = 0; list < 2; ++list)
      CHECK(test::keys_of(held.index, r.p.sequence(0), 0, list, 0).keys == test::keys_of(right.index, r.p.sequence(0), 0, list, 0).keys);
  }
}

TEST_CASE("with a stagger no step refreshes the first stage of more than its share of layers") {
  for (std::int32_t steps = 1; steps < 100; ++steps) {
    refresh_state const state{.steps = steps, .first = 99, .queries = 1};
    int due = 0;
    for (int layer = 0; layer < 32; ++layer)
      due += refresh_gate{{.every = {16, 8, 4}, .stagger = 1}, &state, layer, 1}.due(0, {0, 1, 0, 101}, 0);
    CHECK(due == 2);
  }
}

struct config : attention_defaults<float, 8> {
  using pattern = stages;
  using rope = attend_rope;
};

TEST_CASE("the facade decodes with a cache: the same output as a full choice while every step refreshes") {
  host_rope_table const table{rope_frequencies(1e4, 8), 400};
  sparse_attention<config> const attention{amounts, {.rope = {.style = attend_style::streaming, .table = table.view(), .window = 24}}};
  run r{10, 9};
  auto const plan = attention.plan_decode(host, r.p.shape);
  workspace<host_executor> const scratch{host, plan.workspace_bytes()};
  index_cache<stages, host_executor> const cache{host, {amounts, amounts}, plan.shape(), {}};
  std::vector<float> a(2 * 4 * 8), b(2 * 4 * 8);
  for (int i = 0; i < r.steps; ++i) {
    r.at(i);
    auto const in = r.p.inputs();
    auto const io = [&](std::vector<float>& out) { return attention_io<float>{in.q, {out.data(), 2, 1, 4, 8}, {}, in.lengths}; };
    attention.decode(host, plan, scratch, io(a), in.kv, cache, 1).or_throw();
    attention.decode(host, plan, scratch, io(b), in.kv).or_throw();
    CHECK(a == b);
  }
}

TEST_CASE("schedules, layers and shapes that do not fit are refused with numbers") {
  run r{1, 10};
  auto const message = [&](refresh_schedule const& s) -> std::string {
    try {
      index_cache<stages, host_executor>{host, {amounts}, r.p.shape, s};
    } catch (invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({{16, 0, 4}}) == "refresh of stage 1 is 0; expected at least 1 step");
  CHECK(message({.every = {1, 1, 1}, .stagger = -1}) == "stagger is -1; expected at least 0 steps");
  index_cache<stages, host_executor> const cache{host, {amounts}, r.p.shape, {}};
  CHECK(cache.restart(2).message() == "sequence is 2; the cache has 2");

  host_rope_table const table{rope_frequencies(1e4, 8), 200};
  sparse_attention<config> const attention{amounts, {.rope = {.style = attend_style::streaming, .table = table.view()}}};
  auto const plan = attention.plan_decode(host, r.p.shape);
  workspace<host_executor> const scratch{host, plan.workspace_bytes()};
  auto const in = r.p.inputs();
  std::vector<float> out(64);
  attention_io<float> const io{in.q, {out.data(), 2, 1, 4, 8}, {}, in.lengths};
  CHECK(attention.decode(host, plan, scratch, io, in.kv, cache, 1).message() == "layer is 1; the cache has 1");
  index_cache<stages, host_executor> const slow{host, {amounts}, r.p.shape, {.every = {96, 96, 96}}};
  CHECK(attention.decode(host, plan, scratch, io, in.kv, slow, 0).message() ==
        "attend rope has a table of 200 positions; lists that outlive steps reach 288");
  CHECK_THROWS_AS((index_cache<stages, host_executor>{host, {amounts}, {.queries = 1, .keys = 9, .query_heads = 3}, {}}), invalid_argument);
  auto larger = r.p.shape;
  larger.keys = 500;
  index_cache<stages, host_executor> const other{host, {amounts}, larger, {}};
  CHECK(attention.decode(host, plan, scratch, io, in.kv, other, 0).message() ==
        "the cache is for 2 sequences of 1 queries and 500 keys with 4 and 2 heads of 8; the plan for 2, 1, 400, 4 and 2 of 8");
}

}  // namespace
