#include "support/device.cuh"
#include "support/pages.hpp"
#include "support/row_error.hpp"

#include <lacuna/kernels/sm80/launch_decode.cuh>

#include <doctest/doctest.h>

namespace {

using lacuna::index_t;
using test::attend_recipe, test::lists;

/// The problem's call on the device, ready to launch any number of times.
template <int Dim, class T, int ValueDim = Dim>
struct call {
  using args_type = typename test::attend_problem<T>::args_type;
  test::attend_problem<T> const& problem;
  test::place<lacuna::cuda_executor> at;
  args_type args;
  std::byte* workspace;

  call(lacuna::cuda_executor const& exec, test::attend_problem<T> const& p) : problem{p}, at{exec}, args{p.put(at)} {
    std::vector<std::byte> const poison(lacuna::sm80::decode_workspace_bytes<args_type, Dim, ValueDim>(p.layout(), p.recipe().shape),
                                        std::byte{0x5a});
    workspace = at.put(poison);
  }

  lacuna::status launch() {
    return lacuna::sm80::launch_decode<Dim, ValueDim>(at.exec(), args, problem.layout(), problem.recipe().shape, workspace);
  }
  test::attend_result result() { return problem.read(at, args); }
  test::attend_result run() {
    launch().or_throw();
    return result();
  }
  void poison() {
    std::size_t const rows = result().lse.size();
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    at.refill(args.out.data, std::vector<T>(rows * ValueDim, lacuna::from_float<T>(nan)));
    at.refill(args.lse.data, std::vector<float>(rows, nan));
  }
};

/// Few queries over every kind of list, groups that fill 16 rows in every way, lists of one part and of many.
std::vector<attend_recipe> recipes(int dim, int value_dim) {
  auto const shape = [&](index_t batch, index_t queries, index_t keys, int heads, int kv) {
    return lacuna::attention_shape{batch, queries, keys, heads, kv, dim, value_dim};
  };
  std::vector<attend_recipe> all;
  for (auto const kind : {lists::dense, lists::window, lists::mixed, lists::members}) {
    for (index_t const n : {1, 15, 16, 63, 65, 300}) all.push_back({shape(1, 1, n, 2, 2), kind});
    for (int const group : {3, 4, 7, 16}) all.push_back({.shape = shape(2, 1, 700, 2 * group, 2), .lists = kind, .list_heads = 2});
    for (index_t const queries : {2, 3, 5, 8}) all.push_back({.shape = shape(1, queries, 290, 8, 2), .lists = kind, .list_heads = 1});
    for (int const tile_rows : {1, 4, 64})
      all.push_back(
          {.shape = shape(1, 7, 600, 9, 3), .lists = kind, .tile_rows = tile_rows, .list_heads = 3, .spans = 150, .columns = 300});
    all.push_back({.shape = shape(1, 8, 2100, 16, 1), .lists = kind, .tile_rows = 8, .list_heads = 1, .spans = 300, .columns = 700});
    all.push_back({.shape = shape(1, 40, 500, 6, 3), .lists = kind, .tile_rows = 16, .list_heads = 3});
    all.push_back({shape(1, 3, 1, 1, 1), kind});
    all.push_back({shape(2, 9, 5, 2, 1), kind});
    all.push_back({.shape = shape(2, 5, 570, 2, 2), .lists = kind, .causal = false});
    all.push_back({.shape = shape(1, 4, 780, 4, 1), .lists = kind, .list_heads = 1, .soft_cap = 1.5f, .sink_logits = true});
    all.push_back({.shape = shape(1, 5, 2, 4, 2), .lists = kind, .sink_logits = true});
    all.push_back({.shape = shape(4, 1, 1000, 4, 2), .lists = kind, .list_heads = 2, .key_lengths = {1000, -1, 0, 257}});
    all.push_back({.shape = shape(3, 8, 530, 4, 2), .lists = kind, .query_lengths = {8, 0, 3}, .key_lengths = {530, 400, 2000}});
    all.push_back({.shape = shape(3, 8, 330, 4, 2), .lists = kind, .query_offsets = {0, 8, 8, 11}, .key_offsets = {0, 330, 340, 657}});
    all.push_back({.shape = shape(2, 8, 400, 8, 2), .lists = kind, .list_heads = 2, .tree = true, .key_lengths = {400, 40}});
    all.push_back({.shape = shape(3, 8, 330, 4, 2),
                   .lists = kind,
                   .list_heads = 1,
                   .tree = true,
                   .query_offsets = {0, 8, 8, 11},
                   .key_offsets = {0, 330, 340, 657}});
  }
  all.push_back({.shape = shape(1, 1, 20000, 4, 1), .list_heads = 1});  // parts of more than the fewest keys
  return all;
}

template <class T, int Dim, int ValueDim = Dim>
void agrees_with_plain_loops() {
  test::device_stream const stream;
  int at = 0;
  for (auto const& recipe : recipes(Dim, ValueDim)) {
    CAPTURE(at);
    ++at;
    test::attend_problem<T> const problem{recipe};
    auto const got = call<Dim, T, ValueDim>{stream.exec(), problem}.run(), right = problem.oracle();
    CHECK(test::worst_row(got, right, ValueDim) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("the decode body equals plain loops, bf16, head dim 128") { agrees_with_plain_loops<lacuna::bfloat16, 128>(); }
TEST_CASE("the decode body equals plain loops, f16, head dim 64") { agrees_with_plain_loops<lacuna::float16, 64>(); }
TEST_CASE("the decode body equals plain loops, bf16, head dim 256") { agrees_with_plain_loops<lacuna::bfloat16, 256>(); }
TEST_CASE("the decode body equals plain loops, bf16, head dims 96 and 80") { agrees_with_plain_loops<lacuna::bfloat16, 96, 80>(); }

TEST_CASE("the decode body reads pages as it reads contiguous keys, bit for bit") {
  test::device_stream const stream;
  using T = lacuna::bfloat16;
  for (auto const kind : {lists::dense, lists::mixed}) {
    attend_recipe const recipe{
        .shape = {3, 2, 700, 8, 2, 64, 64}, .lists = kind, .list_heads = 2, .spans = 50, .key_lengths = {700, 129, 0}};
    test::attend_problem<T> problem{recipe};
    call<64, T> contiguous{stream.exec(), problem};
    auto const expected = contiguous.run();
    for (index_t const page : {1, 16, 64, 128}) {
      test::page_pool<T> const pool{recipe.shape, problem.k(), problem.v(), page, static_cast<unsigned>(page), recipe.key_lengths};
      auto const& a = contiguous.args;
      lacuna::attend_args<T, lacuna::paged_kv<T>> const paged{
          a.shape, a.lengths, a.index, a.q, pool.put(contiguous.at), a.out, a.lse, a.logits, a.sink_logits, {}, {}, {}};
      contiguous.poison();
      lacuna::sm80::launch_decode<64, 64>(stream.exec(), paged, problem.layout(), recipe.shape, contiguous.workspace).or_throw();
      CHECK(contiguous.result() == expected);
    }
  }
}

TEST_CASE("50 launches of the decode body give the same bits") {
  test::device_stream const stream;
  for (auto const kind : {lists::mixed, lists::members}) {
    test::attend_problem<lacuna::bfloat16> const problem{
        {.shape = {2, 3, 3000, 6, 2, 128, 128}, .lists = kind, .list_heads = 2, .spans = 300, .columns = 900}};
    call<128, lacuna::bfloat16> c{stream.exec(), problem};
    auto const first = c.run();
    for (int round = 1; round < 50; ++round) {
      c.poison();
      REQUIRE(c.run() == first);
    }
  }
}

TEST_CASE("a captured decode replays at other lengths, bit for bit like a direct one, and is right") {
  test::device_stream const stream;
  attend_recipe const capacity{.shape = {4, 2, 3000, 8, 2, 64, 64}, .list_heads = 1, .key_lengths = {3000, 3000, 3000, 3000}};
  test::attend_problem<lacuna::bfloat16> const problem{capacity};
  call<64, lacuna::bfloat16> c{stream.exec(), problem};
  test::recorded_graph const graph{stream, [&] { return c.launch(); }};
  for (std::vector<std::int32_t> const& lengths : {std::vector{100, -1, 0, 7}, {3000, 256, 257, 2048}, {5000, 33, 512, 65}}) {
    c.at.refill(const_cast<std::int32_t*>(c.args.lengths.key_lengths), lengths);
    c.poison();
    graph.launch();
    auto const replayed = c.result();
    c.poison();
    CHECK(c.run() == replayed);
    attend_recipe now = capacity;
    now.key_lengths = lengths;
    auto const right = test::attend_problem<lacuna::bfloat16>{now}.oracle();
    CHECK(test::worst_row(replayed, right, 64) <= 1e-2);
  }
}

TEST_CASE("the decode body gives the same bits whatever else is in the batch") {
  test::device_stream const stream;
  using T = lacuna::bfloat16;
  attend_recipe const together{.shape = {3, 1, 2000, 8, 2, 64, 64}, .list_heads = 1, .key_lengths = {500, 2000, 0}};
  test::attend_problem<T> all{together};
  auto const joined = call<64, T>{stream.exec(), all}.run();
  for (int const b : {0, 1, 2}) {
    attend_recipe alone = together;
    alone.shape.batch = 1, alone.key_lengths = {together.key_lengths[b]};
    test::attend_problem<T> one{alone};
    auto const part = [&](auto const& from, auto& to) { to.assign(from.begin() + b * to.size(), from.begin() + (b + 1) * to.size()); };
    part(all.q(), one.q()), part(all.k(), one.k()), part(all.v(), one.v());
    auto const single = call<64, T>{stream.exec(), one}.run();
    CHECK(std::equal(single.out.begin(), single.out.end(), joined.out.begin() + b * single.out.size()));
    CHECK(std::equal(single.lse.begin(), single.lse.end(), joined.lse.begin() + b * single.lse.size()));
  }
}

TEST_CASE("rows that cannot be copied 16 bytes at a time are refused by name") {
  test::device_stream const stream;
  test::attend_problem<lacuna::bfloat16> const problem{{.shape = {1, 2, 64, 2, 2, 64, 64}}};
  call<64, lacuna::bfloat16> c{stream.exec(), problem};
  c.args.kv.keys.data += 1;
  CHECK(c.launch().message() == "k starts off a 16-byte boundary");
  c.args.kv.keys.data -= 1, c.args.kv.values.stride[1] += 1;
  CHECK(c.launch().message() == "v has stride 129; expected a multiple of 8 elements");
  c.args.kv.values.stride[1] -= 1, c.args.q.stride[2] += 4;
  CHECK(c.launch().message().find("q has stride 68") == 0);
}

}  // namespace
