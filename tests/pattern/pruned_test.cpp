#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/place.hpp"
#include "support/pruned_amounts.hpp"
#include "support/pruned_oracle.hpp"

namespace {

using namespace lacuna;
using test::against_definition;
using test::pattern_problem;

host_executor const host{2};
std::vector<double> const radians = rope_frequencies(1e4, 8);
host_rope_table const halves{radians, 2048}, neighbours{radians, 2048, rope_pairing::neighbours};

rope_table random_table(std::mt19937& engine) { return engine() % 2 ? halves.view() : neighbours.view(); }

template <class Exec, class... Stages>
test::verdict try_stages(Exec const& exec, std::mt19937& engine, index_t most_keys, stage_list<Stages...> const& stage) {
  return against_definition(exec, test::random_problem(engine, most_keys), test::random_amounts(engine, random_table(engine), stage),
                            radians);
}

/// The portable bodies, which host_executor does not run.
test::threaded_executor const portable{1};

TEST_CASE_TEMPLATE("lists equal the definition for every rule, style, scope and stride", Exec, host_executor, test::threaded_executor) {
  auto const& exec = [&]() -> Exec const& {
    if constexpr (std::same_as<Exec, host_executor>)
      return host;
    else
      return portable;
  }();
  std::mt19937 engine{1};
  test::verdict all;
  auto const check = [&](test::verdict const& v) {
    CHECK(v.equal);
    all += v;
  };
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    check(try_stages(exec, engine, 220,
                     stage_list{chunk_scan<16>{.keep = 64, .query_block = 16}, chunk_scan<8>{.keep = 32, .query_block = 16},
                                chunk_scan<4>{.keep = 16, .query_block = 8}}));
    check(try_stages(exec, engine, 220,
                     stage_list{chunk_scan<16, path_halving>{.keep = 48, .query_block = 32, .pool = 4},
                                chunk_scan<4, halving>{.keep = 24, .query_block = 16, .pool = 2}}));
    check(try_stages(exec, engine, 220, stage_list{chunk_scan<8, spaced_tokens<2>>{.keep = 40, .query_block = 64}}));
    check(try_stages(exec, engine, 220, stage_list{chunk_scan<8, every_token>{.keep = 40, .query_block = 16, .pool = 4}}));
    check(try_stages(exec, engine, 120,
                     stage_list{chunk_scan<12, midpoint_halving>{.keep = 48, .query_block = 16, .pool = 4},
                                chunk_scan<4, midpoint_halving>{.keep = 16, .query_block = 16}}));
  }
  CHECK(all.compared > 0.9 * all.seen);
}

TEST_CASE("summaries and choosers equal the definition") {
  std::mt19937 engine{2};
  test::verdict all;
  auto const check = [&](auto const& stage, bool linear) {
    auto amounts = test::random_amounts(engine, random_table(engine), stage);
    bool const chunks_turn = amounts.rope.style == scan_style::chunk_indexed;
    if (amounts.rope.style == scan_style::dynamic_extend || (chunks_turn && !linear)) amounts.rope.style = scan_style::infllm;
    auto const v = against_definition(host, test::random_problem(engine, 180), amounts, radians);
    CHECK(v.equal);
    all += v;
  };
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    check(stage_list{page_bound<8>{.keep = 40, .query_block = 16}}, false);
    check(stage_list{block_mean<16>{.keep = 64, .query_block = 32, .pool = 2}, chunk_scan<4>{.keep = 32, .query_block = 16}}, true);
    check(stage_list{chunk_scan<8, every_token, top_mass>{.keep = 80, .query_block = 16, .chooser = {0.6f}}}, true);
    check(stage_list{block_mean<8, near_best>{.keep = 64, .query_block = 16, .chooser = {1.0f}}}, true);
  }
  CHECK(all.compared > 0.9 * all.seen);
}

TEST_CASE("lists are the same from teams of threads that meet only at barriers") {
  std::mt19937 engine{3};
  for (int const members : {2, 3}) {
    test::threaded_executor const exec{members};
    for (int round = 0; round < 3; ++round) {
      CHECK(try_stages(exec, engine, 90,
                       stage_list{chunk_scan<16, halving>{.keep = 32, .query_block = 16}, chunk_scan<4>{.keep = 8, .query_block = 16}}));
      CHECK(
          try_stages(exec, engine, 90, stage_list{chunk_scan<8, every_token, top_mass>{.keep = 32, .query_block = 16, .chooser = {0.5f}}}));
      auto amounts = test::random_amounts(engine, random_table(engine), stage_list{page_bound<8>{.keep = 24, .query_block = 16}});
      amounts.rope = {};
      CHECK(against_definition(exec, test::random_problem(engine, 90), amounts, radians));
    }
  }
}

auto const small = test::pruned_by(stage_list{chunk_scan<16>{.keep = 64, .query_block = 16}, chunk_scan<4>{.keep = 32, .query_block = 16}},
                                   {.sinks = 8, .window = 32});

index_t keys_read(sparse_index const& index, pattern_problem const& p, index_t b, int list, index_t tile) {
  return static_cast<index_t>(test::keys_of(index, p.sequence(b), b, list, tile).keys.size());
}

TEST_CASE("text of sinks + window + the last budget is read whole, and one chunk more is not") {
  for (index_t const keys : {40, 41, 72, 73}) {
    pattern_problem p{.shape = {1, 1, keys, 2, 1, 8, 8}};
    p.fill(4);
    auto const held = test::build_index(host, small, p);
    CHECK((keys_read(held.index, p, 0, 0, 0) == keys) == (keys <= 8 + 32 + 32 + 1));  // the query itself is not of the window
  }
}

TEST_CASE("what a stage keeps is part of what the one before kept") {
  pattern_problem p{.shape = {2, 100, 300, 4, 2, 8, 8}};
  p.fill(5);
  auto const memory = [&](std::size_t bytes) { return std::vector<std::byte>(bytes + 256); };
  auto kept = memory(small.kept_bytes(p.shape)), scratch = memory(small.scratch_bytes(p.shape));
  auto const aligned = [](std::vector<std::byte>& v) { return v.data() + (256 - reinterpret_cast<std::uintptr_t>(v.data()) % 256) % 256; };
  small.scan(host, p.inputs(), true, {aligned(kept), aligned(scratch), p.shape}).or_throw();
  auto const stages = small.kept(aligned(kept), p.shape);
  for (index_t row = 0; row < 2 * 2 * 7; ++row)
    for (int i = 0; i < stages[1].count[row]; ++i) {
      auto const* const before = stages[0].chunks_of(row);
      CHECK(std::binary_search(before, before + stages[0].count[row], stages[1].chunks_of(row)[i] / 4));
    }
}

TEST_CASE("rows of a batch do not depend on each other") {
  pattern_problem p{.shape = {2, 60, 300, 4, 2, 8, 8}, .query_lengths = {60, 33}, .key_lengths = {300, 170}};
  p.fill(6);
  auto const both = test::build_index(host, small, p);
  auto other = p;
  for (index_t i = 0; i < 300 * 2 * 8; ++i) other.k[i] = std::numeric_limits<float>::quiet_NaN();
  for (index_t i = 0; i < 60 * 4 * 8; ++i) other.q[i] = std::numeric_limits<float>::quiet_NaN();
  auto const alone = test::build_index(host, small, other);
  for (int list = 0; list < 2; ++list)
    for (index_t tile = 0; tile < 3; ++tile)
      CHECK(test::keys_of(both.index, p.sequence(1), 1, list, tile).keys == test::keys_of(alone.index, p.sequence(1), 1, list, tile).keys);
}

TEST_CASE("a planted key among 64K is kept by the exact rule, and by halving when its neighbours resemble it") {
  index_t const keys = 65'536;
  for (index_t const at : {300, 20'001, 64'003}) {
    pattern_problem p{.shape = {1, 4, keys, 2, 1, 16, 8}};
    p.fill(static_cast<unsigned>(at));
    auto const plant = [&](index_t t, float much) {
      for (int d = 0; d < 16; ++d) p.k[t * 16 + d] += much * p.q[(3 * 2 + 1) * 16 + d];
    };
    plant(at, 8);
    auto const read = [&](auto const& pattern) {
      auto const held = test::build_index(host, pattern, p);
      auto const all = test::keys_of(held.index, p.sequence(0), 0, 0, 0).keys;
      CHECK(all.size() < 3500);
      return std::binary_search(all.begin(), all.end(), static_cast<std::int32_t>(at));
    };
    CHECK(read(test::pruned_by(stage_list{chunk_scan<8, every_token>{.keep = 2048}})));
    for (index_t t = at / 256 * 256; t < (at / 256 + 1) * 256; ++t) plant(t, 8.0f / (2 + std::abs(t - at) / 16));
    CHECK(read(test::pruned_by(stage_list{chunk_scan<256>{.keep = 32'768}, chunk_scan<32>{.keep = 8'192}, chunk_scan<8>{.keep = 2'048}})));
  }
}

TEST_CASE("landmarks and scores from elsewhere decide") {
  pattern_problem p{.shape = {1, 16, 200, 2, 1, 8, 8}};
  p.fill(8);
  std::vector<float> scores(2 * 24, -1);
  scores[5] = 3, scores[24 + 11] = 2;  // list 0: chunk 5; list 1: chunk 11
  auto given = test::pruned_by(stage_list{scored_chunks<8>{.keep = 8, .query_block = 16}},
                               {.sinks = 8, .window = 16, .scope = mask_scope::query_head});
  given.stage.get<0>().rule.scores = {scores.data(), 1, 2, 1, 24};
  auto const held = test::build_index(host, given, p);
  CHECK(held.index.row(p.sequence(0), 0, 0, 0).own[0] == span{8 + 40, 8 + 48});
  CHECK(held.index.row(p.sequence(0), 0, 1, 0).own[0] == span{8 + 88, 8 + 96});

  std::fill(scores.begin(), scores.end(), 0.5f);  // 36 % of 20 equal chunks take 8 of them
  auto massive = test::pruned_by(stage_list{scored_chunks<8, top_mass>{.keep = 80, .chooser = {0.36f}}},
                                 {.sinks = 8, .window = 16, .scope = mask_scope::query_head});
  massive.stage.get<0>().query_block = 16, massive.stage.get<0>().rule.scores = given.stage.get<0>().rule.scores;
  auto const ties = test::build_index(host, massive, p);
  CHECK(ties.index.row(p.sequence(0), 0, 0, 0).own_count == 1);
  CHECK(ties.index.row(p.sequence(0), 0, 0, 0).own[0] == span{8, 8 + 64});

  std::vector<std::int32_t> offsets(24);
  for (int c = 0; c < 24; ++c) offsets[c] = c % 8;
  for (int d = 0; d < 8; ++d) p.k[(8 + 8 * 9 + 1) * 8 + d] = 10 * p.q[d], p.k[(8 + 8 * 3 + 4) * 8 + d] = 20 * p.q[d];
  auto marked = test::pruned_by(stage_list{chunk_scan<8, landmark>{.keep = 8, .query_block = 16}}, {.sinks = 8, .window = 16});
  marked.stage.get<0>().rule.offsets = {offsets.data(), 1, 1, 24};
  auto const found = test::build_index(host, marked, p);
  CHECK(found.index.row(p.sequence(0), 0, 0, 0).own[0] == span{8 + 72, 8 + 80});  // chunk 3 has more, but not at its landmark
}

TEST_CASE("amounts and shapes that do not fit are refused with numbers") {
  attention_shape const s{1, 64, 4096, 2, 1, 8, 8};
  auto const message = [&](auto const& p, attention_shape const& at) -> std::string {
    try {
      p.check(at);
    } catch (invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  using two = stage_list<chunk_scan<32>, chunk_scan<8>>;
  two const fine{chunk_scan<32>{.keep = 512}, chunk_scan<8>{.keep = 256}};
  CHECK(message(test::pruned_by(fine), s) == "");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<32>{.keep = 512}, chunk_scan<12>{.keep = 252}}, {.sinks = 252}), s) ==
        "stage 1 has chunks of 12, stage 0 of 32; expected a divisor");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<32>{.keep = 256}, chunk_scan<8>{.keep = 512}}), s) ==
        "stage 1 keeps 512 tokens, stage 0 keeps 256; a budget cannot grow");
  CHECK(message(test::pruned_by(fine, {.window = 31}), s) == "window is 31; expected at least the first chunk of 32");
  CHECK(message(test::pruned_by(fine, {.sinks = 12}), s) == "sinks is 12; expected a multiple of the last chunk of 8");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<32>{.keep = 100}}), s) ==
        "keep is 100; expected a positive multiple of the chunk of 32");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<32>{.keep = 512, .query_block = 32}, chunk_scan<8>{.keep = 256}}), s) ==
        "stage 1 has query blocks of 64, stage 0 of 32; expected a divisor");
  CHECK(message(test::pruned_by(fine, {.query_stride = 0}), s) == "query_stride is 0; expected at least 1");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<8>{.keep = 64, .pool = 3}}), s) == "pool is 3; expected 1, 2 or 4");
  CHECK(message(test::pruned_by(fine), {1, 65, 64, 2, 1, 8, 8}) ==
        "queries is 65, keys is 64; pruned expects at most as many queries as keys");
  host_rope_table const table{radians, 1025};
  CHECK(message(test::pruned_by(fine, {.rope = {.style = scan_style::relative, .table = table.view()}}), s) ==
        "scan rope has a table of 1025 positions; this style reaches 1026");
  CHECK(message(test::pruned_by(fine, {.rope = {.style = scan_style::chunk_indexed, .table = table.view()}}), s) ==
        "scan rope has a table of 1025 positions; this style reaches 1505");
  CHECK(message(test::pruned_by(stage_list{page_bound<16>{}}, {.rope = {.style = scan_style::chunk_indexed, .table = halves.view()}}), s) ==
        "stage 0 reads summaries of keys, which the scan's position style would have to turn");
  CHECK(message(test::pruned_by(stage_list{scored_chunks<16>{}}), s) == "stage 0 has scores of [0, 0, 0, 0]; expected [1, 1, 1, 240]");
  CHECK(message(test::pruned_by(stage_list{chunk_scan<8, every_token, top_mass>{.keep = 64, .chooser = {0}}}), s) ==
        "mass is 0.000000; expected more than 0, at most 1");
}

}  // namespace
