// Decode through the sparse kernel: target A3 with other shapes beside it (L2 flushed before each run), and H3-like calls on short lists
// inside a CUDA graph: `bench_decode [id...]`. TB/s count the keys and values that the lists name, each once.
#include "support.cuh"

#include <lacuna/kernels/sm80/launch_decode.cuh>

#include <memory>
#include <numeric>

namespace {

using bench::bf16, bench::buffer, bench::index_t;

/// Spans of one row, the same for all heads: what a pattern would have chosen.
using span_list = std::vector<lacuna::span>;

span_list dense_list() { return {{0, 0x7fffffff}}; }

/// 256 sinks, 256 random 8-token chunks, a window of 1024. [InfiniteHiP 3K]
span_list chunk_list(index_t keys, unsigned seed) {
  std::vector<int> chunk(static_cast<std::size_t>(keys - 256 - 1024) / 8);
  std::iota(chunk.begin(), chunk.end(), 32);
  std::mt19937 engine{seed};
  span_list list{{0, 256}};
  std::vector<int> kept;
  std::sample(chunk.begin(), chunk.end(), std::back_inserter(kept), 256, engine);
  for (int const c : kept) list.push_back({c * 8, c * 8 + 8});
  list.push_back({static_cast<int>(keys) - 1024, static_cast<int>(keys)});
  return list;
}

index_t keys_in(span_list const& list, index_t keys) {
  index_t sum = 0;
  for (auto const& s : list) sum += std::min<index_t>(s.end, keys) - std::min<index_t>(s.begin, keys);
  return sum;
}

/// An index of one list for the layer and every sequence.
struct layer_index {
  lacuna::index_layout layout;
  buffer<std::byte> memory;
  lacuna::sparse_index index;

  layer_index(lacuna::attention_shape const& s, span_list const& list)
      : layout{static_cast<int>(s.batch), 1, s.queries, 64, 1, true, {.spans = static_cast<int>(list.size())}},
        memory{lacuna::index_bytes(layout)},
        index{lacuna::make_index(layout, memory.data)} {
    std::vector<lacuna::span> spans;
    for (index_t b = 0; b < s.batch; ++b) spans.insert(spans.end(), list.begin(), list.end());
    std::vector<std::int32_t> const counts(s.batch, static_cast<std::int32_t>(list.size()) | lacuna::sparse_index::alone);
    std::vector<lacuna::head_rule> const rules(s.batch);
    bench::put(index.own, spans), bench::put(index.row_count, counts), bench::put(index.rules, rules);
  }
};

/// Queries, keys, values and results of a shape.
template <int Dim>
struct problem {
  using contiguous = lacuna::contiguous_kv<bf16>;
  lacuna::attention_shape shape;
  bench::tensor<bf16> q, k, v, out;
  buffer<float> lse;
  std::unique_ptr<buffer<std::int32_t>> key_lengths;

  problem(lacuna::cuda_executor const& exec, lacuna::attention_shape s, std::vector<std::int32_t> const& lengths = {})
      : shape{s},
        q{exec, s.batch, s.queries, s.query_heads, Dim, {1}},
        k{exec, s.batch, s.keys, s.kv_heads, Dim, {2}},
        v{exec, s.batch, s.keys, s.kv_heads, Dim, {3}},
        out{exec, s.batch, s.queries, s.query_heads, Dim, {4}},
        lse(s.batch * s.queries * s.query_heads) {
    shape.key_dim = shape.value_dim = Dim;
    if (!lengths.empty()) key_lengths = std::make_unique<buffer<std::int32_t>>(lengths);
  }

  contiguous kv() const { return {k.view(), v.view()}; }

  template <class Kv>
  lacuna::attend_args<bf16, Kv> args(lacuna::sparse_index const& index, Kv const& kv) const {
    lacuna::attend_args<bf16, Kv> a{};
    a.shape = shape, a.index = index, a.kv = kv;
    a.lengths.key_lengths = key_lengths ? key_lengths->data : nullptr;
    a.q = q.view(), a.out = out.view();
    a.lse = {lse.data, shape.batch, shape.queries, shape.query_heads};
    a.logits.scale = 1 / std::sqrt(float(Dim));
    return a;
  }

  std::vector<float> read() const {
    bench::check(cudaDeviceSynchronize(), "run");
    auto const got = bench::get(out.view().data, out.size());
    std::vector<float> values(got.size());
    std::transform(got.begin(), got.end(), values.begin(), [](bf16 x) { return float(x); });
    return values;
  }
};

/// Largest error of a row against the portable body, relative to its norm.
template <int Dim, class Args>
double against_portable(lacuna::cuda_executor const& exec, problem<Dim> const& p, Args const& args) {
  auto const got = p.read();
  int const splits = static_cast<int>(std::max<index_t>(1, p.shape.keys / 2048));
  index_t const rows = p.shape.batch * p.shape.query_heads * p.shape.queries * splits;
  buffer<float> const memory(rows * (Dim + 1));
  lacuna::attend_parts const parts{splits, 2048, memory.data, memory.data + rows * Dim};
  lacuna::attend_row<Args> const body{args, parts};
  lacuna::merge_rows<Args> const merge{args, parts};
  exec.launch({body.blocks(), 128}, body).or_throw();
  exec.launch({merge.blocks(), 128}, merge).or_throw();
  exec.synchronize().or_throw();
  return bench::worst_row(got, p.read(), Dim);
}

void report(char const* id, bench::run_times const& times, double bytes, double error) {
  char note[64];
  std::snprintf(note, sizeof note, "error %.1e %s", error, bench::verdict(error));
  bench::print_line(id, times, bytes, "TB/s", note);
}

/// One call at a time, the L2 cache full of something else.
template <int Dim, class Kv>
void flushed(char const* id, lacuna::cuda_executor const& exec, problem<Dim> const& p, Kv const& kv, span_list const& list, double bytes) {
  layer_index const x{p.shape, list};
  auto const args = p.args(x.index, kv);
  using args_type = lacuna::attend_args<bf16, Kv>;
  buffer<std::byte> const workspace(lacuna::sm80::decode_workspace_bytes<args_type, Dim, Dim>(x.layout, p.shape));
  constexpr std::size_t flush_bytes = std::size_t{512} << 20;
  buffer<std::byte> const other(flush_bytes);
  auto const times = bench::time_runs(
      exec.stream(), 11, [&] { lacuna::sm80::launch_decode<Dim, Dim>(exec, args, x.layout, p.shape, workspace.data).or_throw(); },
      [&] { cudaMemsetAsync(other.data, 1, flush_bytes, exec.stream()); });
  report(id, times, bytes, against_portable(exec, p, args));
}

/// 32 calls in a graph, each over a list of its own, so that its keys come from memory.
template <int Dim>
void recorded(char const* id, lacuna::cuda_executor const& exec, problem<Dim> const& p) {
  constexpr int calls = 32;
  using args_type = lacuna::attend_args<bf16, lacuna::contiguous_kv<bf16>>;
  std::vector<std::unique_ptr<layer_index>> lists;
  double bytes = 0;
  for (int i = 0; i < calls; ++i) {
    span_list const list = chunk_list(p.shape.keys, i);
    bytes = 4.0 * Dim * p.shape.kv_heads * keys_in(list, p.shape.keys);
    lists.push_back(std::make_unique<layer_index>(p.shape, list));
  }
  buffer<std::byte> const workspace(lacuna::sm80::decode_workspace_bytes<args_type, Dim, Dim>(lists[0]->layout, p.shape));
  auto const launch = [&](int i) {
    lacuna::sm80::launch_decode<Dim, Dim>(exec, p.args(lists[i]->index, p.kv()), lists[i]->layout, p.shape, workspace.data).or_throw();
  };
  launch(0);
  exec.synchronize().or_throw();
  double const error = against_portable(exec, p, p.args(lists[0]->index, p.kv()));
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  bench::check(cudaStreamBeginCapture(exec.stream(), cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < calls; ++i) launch(i);
  bench::check(cudaStreamEndCapture(exec.stream(), &graph), "capture");
  bench::check(cudaGraphInstantiate(&runnable, graph, 0), "instantiate");
  auto const all = bench::time_runs(exec.stream(), 11, [&] { cudaGraphLaunch(runnable, exec.stream()); });
  cudaGraphExecDestroy(runnable), cudaGraphDestroy(graph);
  report(id, {all.median / calls, all.best / calls, all.worst / calls}, bytes, error);
}

template <int Dim>
double bytes_of(lacuna::attention_shape const& s, double keys) {
  return 4.0 * Dim * s.kv_heads * keys;
}

template <int Dim>
void dense(char const* id, bench::session const& session, lacuna::attention_shape const& s, std::vector<std::int32_t> const& lengths = {}) {
  if (!session.wanted(id)) return;
  auto const exec = session.exec();
  problem<Dim> const p{exec, s, lengths};
  double const keys = lengths.empty() ? double(s.batch) * s.keys : std::accumulate(lengths.begin(), lengths.end(), 0.0);
  flushed(id, exec, p, p.kv(), dense_list(), bytes_of<Dim>(s, keys));
}

/// The pool is the same memory, its pages in random order.
void paged(char const* id, bench::session const& session, lacuna::attention_shape const& s, index_t page) {
  if (!session.wanted(id)) return;
  auto const exec = session.exec();
  problem<128> const p{exec, s};
  index_t const pages = s.keys / page;
  std::vector<std::int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937{3});
  buffer<std::int32_t> const table(order);
  lacuna::paged_kv<bf16> const kv{
      {p.k.view().data, pages, page, s.kv_heads, 128}, {p.v.view().data, pages, page, s.kv_heads, 128}, {table.data, 1, pages}};
  flushed(id, exec, p, kv, dense_list(), bytes_of<128>(s, double(s.keys)));
}

/// Short lists: calls in a graph, and one at a time.
void chunks(bench::session const& session, lacuna::attention_shape const& s, char const* in_graph, char const* one) {
  if (!session.wanted(in_graph) && !session.wanted(one)) return;
  auto const exec = session.exec();
  problem<128> const p{exec, s};
  auto const list = chunk_list(s.keys, 1);
  if (session.wanted(in_graph)) recorded(in_graph, exec, p);
  if (session.wanted(one)) flushed(one, exec, p, p.kv(), list, bytes_of<128>(s, double(keys_in(list, s.keys))));
}

void run(bench::session const& session) {
  constexpr index_t million = 1 << 20;
  dense<128>("A3", session, {1, 1, million, 32, 8});
  dense<128>("A3h1", session, {1, 1, million, 4, 1});
  dense<128>("A3-28:4", session, {1, 1, million, 28, 4});
  dense<64>("A3-9:3", session, {1, 1, million, 9, 3});
  dense<128>("A3q8", session, {1, 8, million, 32, 8});
  dense<128>("A3r", session, {4, 1, million / 2, 32, 8}, {524288, 200000, 50000, 3000});
  dense<128>("D128K", session, {1, 1, 131072, 32, 8});
  dense<128>("D32K", session, {1, 1, 32768, 32, 8});
  dense<128>("D4K-b64", session, {64, 1, 4096, 32, 8});
  paged("A3p64", session, {1, 1, million, 32, 8}, 64);
  paged("A3p16", session, {1, 1, million, 32, 8}, 16);
  chunks(session, {1, 1, million, 32, 8}, "H3", "H3f");
  chunks(session, {1, 1, million, 28, 4}, "H3-28:4", "H3f-28:4");
}

}  // namespace

int main(int argc, char** argv) { return bench::run_cases(argc, argv, run); }
