#include "support/device.cuh"
#include "support/prefill_recipes.hpp"

#include <doctest/doctest.h>
#include <lacuna/kernels/sm80/launch_prefill.cuh>

#include <numeric>

namespace {

using lacuna::index_t;
using test::lists;

/// The device that an sm_80 body runs on, if there is one.
bool has_tensor_cores(lacuna::cuda_executor const& exec) { return exec.target() != lacuna::target::portable_cuda; }

template <int KeyDim, int ValueDim, class T>
test::attend_result run_on_ampere(lacuna::cuda_executor const& exec, test::attend_problem<T> const& problem) {
  test::place at{exec};
  auto const args = problem.put(at);
  lacuna::sm80::launch_prefill<KeyDim, ValueDim>(exec, args).or_throw();
  return problem.read(at, args);
}

template <class T, int KeyDim, int ValueDim = KeyDim>
void agrees_with_plain_loops() {
  test::device_stream const stream;
  if (!has_tensor_cores(stream.exec())) return;
  int at = 0;
  for (auto const& recipe :
       test::prefill_recipes({lists::dense, lists::window, lists::mixed, lists::members, lists::ruled}, KeyDim, ValueDim)) {
    CAPTURE(at);
    ++at;
    test::attend_problem<T> const problem{recipe};
    auto const got = run_on_ampere<KeyDim, ValueDim>(stream.exec(), problem), right = problem.oracle();
    CHECK(test::worst_row(got, right, ValueDim) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("the Ampere prefill body equals plain loops, bf16, head dim 64") { agrees_with_plain_loops<lacuna::bfloat16, 64>(); }
TEST_CASE("the Ampere prefill body equals plain loops, bf16, head dim 128") { agrees_with_plain_loops<lacuna::bfloat16, 128>(); }
TEST_CASE("the Ampere prefill body equals plain loops, f16, head dim 96") { agrees_with_plain_loops<lacuna::float16, 96>(); }
TEST_CASE("the Ampere prefill body equals plain loops, bf16, head dim 256") { agrees_with_plain_loops<lacuna::bfloat16, 256>(); }
TEST_CASE("the Ampere prefill body equals plain loops, bf16, keys of 192, values of 128") { agrees_with_plain_loops<lacuna::bfloat16, 192, 128>(); }
TEST_CASE("the Ampere prefill body equals plain loops, f16, keys of 112, values of 48") { agrees_with_plain_loops<lacuna::float16, 112, 48>(); }

TEST_CASE("the Ampere prefill body packs groups up to its rows and reads wide tiles") {
  test::device_stream const stream;
  if (!has_tensor_cores(stream.exec())) return;
  for (auto const kind : {lists::dense, lists::window, lists::mixed, lists::ruled})
    for (int const heads : {1, 5, 65, 128, 129}) {
      CAPTURE(heads);
      test::attend_problem<lacuna::bfloat16> const problem{
          {.shape = {1, 150, 190, heads, 1, 64, 64}, .lists = kind, .tile_rows = 128, .list_heads = 1}};
      auto const got = run_on_ampere<64, 64>(stream.exec(), problem), right = problem.oracle();
      CHECK(test::worst_row(got, right, 64) <= 1e-2);
      CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
    }
}

/// Keys and values of each slot at a place of their own: no two neighbours stay together.
template <class T>
struct scattered_kv {
  using element = T;
  lacuna::contiguous_kv<T> rows;
  std::int32_t const* place;  // [slot]

  LACUNA_HD T const* key(lacuna::sequence const& s, index_t b, int head, index_t slot) const { return rows.key(s, b, head, place[slot]); }
  LACUNA_HD T const* value(lacuna::sequence const& s, index_t b, int head, index_t slot) const {
    return rows.value(s, b, head, place[slot]);
  }
  LACUNA_HD index_t run(index_t) const { return 1; }
  LACUNA_HD index_t key_stride() const { return rows.key_stride(); }
  LACUNA_HD index_t value_stride() const { return rows.value_stride(); }
};
static_assert(lacuna::KvReader<scattered_kv<float>>);

/// rows[place[i]] = what was rows[i]
template <class T>
void scatter(std::vector<T>& rows, std::vector<std::int32_t> const& place) {
  std::size_t const row = rows.size() / place.size();
  auto const before = rows;
  for (std::size_t i = 0; i < place.size(); ++i) std::copy_n(before.begin() + i * row, row, rows.begin() + place[i] * row);
}

TEST_CASE("the Ampere prefill body takes any reader of keys and values") {
  using T = lacuna::bfloat16;
  test::device_stream const stream;
  if (!has_tensor_cores(stream.exec())) return;
  for (auto const kind : {lists::dense, lists::mixed}) {
    test::attend_problem<T> problem{{.shape = {1, 200, 333, 6, 2, 64, 64}, .lists = kind, .list_heads = 2}};
    auto const right = problem.oracle();
    std::vector<std::int32_t> place(333);
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), std::mt19937{3});
    scatter(problem.k(), place), scatter(problem.v(), place);
    test::place at{stream.exec()};
    auto const a = problem.put(at);
    lacuna::attend_args<T, scattered_kv<T>> const args{a.shape, a.lengths, a.index, a.q, {a.kv, at.put(place)},
                                                       a.out,   a.lse,     a.logits, a.sink_logits, {}};
    lacuna::sm80::launch_prefill<64, 64>(stream.exec(), args).or_throw();
    auto const got = problem.read(at, a);
    CHECK(test::worst_row(got, right, 64) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("50 launches of the Ampere prefill body give the same bits") {
  test::device_stream const stream;
  if (!has_tensor_cores(stream.exec())) return;
  for (auto const kind : {lists::window, lists::mixed}) {
    test::attend_problem<lacuna::bfloat16> const problem{{.shape = {2, 300, 500, 6, 2, 64, 64}, .lists = kind, .list_heads = 2}};
    auto const first = run_on_ampere<64, 64>(stream.exec(), problem);
    for (int round = 1; round < 50; ++round) REQUIRE(run_on_ampere<64, 64>(stream.exec(), problem) == first);
  }
}

TEST_CASE("what 16-byte copies cannot address is refused by name") {
  test::device_stream const stream;
  test::attend_problem<lacuna::bfloat16> const problem{{.shape = {1, 64, 64, 2, 2, 64, 64}}};
  test::place at{stream.exec()};
  auto const right = problem.put(at);
  auto const refusal = [&](auto const& change) {
    auto args = right;
    change(args);
    return lacuna::sm80::launch_prefill<64, 64>(stream.exec(), args).message();
  };
  CHECK(refusal([](auto& a) { a.q.data += 1; }) == "q starts off a 16-byte boundary");
  CHECK(refusal([](auto& a) { a.kv.keys.data += 4; }) == "k starts off a 16-byte boundary");
  CHECK(refusal([](auto& a) { a.kv.values.stride[1] += 1; }).find("v has stride 129") == 0);
  CHECK(refusal([](auto& a) { a.out.data += 1; }) == "out starts off a 4-byte boundary");
  CHECK(refusal([](auto& a) { a.out.stride[2] += 1; }).find("out has stride 65") == 0);
}

}  // namespace
