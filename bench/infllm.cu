// InfLLM-V2's attention, a list of blocks for every token and KV head: `bench_infllm [case...]`.
//   check  small shapes against the portable body
//   I2     128K, 32:2 heads, 96 blocks of 64 a token: lists joined for 8 neighbours and attention over them; I2j the joining alone
//   I2k    the same with 16 blocks a token (1 initial, 8 local, 7 best)
// Lists are chosen by the method from data with topics, before the clock starts.
#include "block_selection.cuh"

#include <lacuna/kernels/sm90/launch_prefill.cuh>

namespace {

using bench::index_t;
constexpr int dim = 128;

/// Chosen lists and what attends over them.
struct call {
  lacuna::cuda_executor exec;
  bench::tensors<dim> data;
  lacuna::index_layout layout;
  bench::buffer<std::byte> memory, workspace;
  lacuna::sparse_index index;

  call(lacuna::cuda_executor const& e, lacuna::attention_shape const& s, bench::selection const& choice, bench::topics const& t)
      : exec{e},
        data{s, t},
        layout{bench::selection_layout(s, choice)},
        memory{static_cast<index_t>(lacuna::index_bytes(layout))},
        workspace{static_cast<index_t>(lacuna::sm90::prefill_workspace_bytes(layout, s))},
        index{lacuna::make_index(layout, memory.data())} {
    bench::select_blocks(exec, data, choice, index);
  }

  void attend() const { lacuna::sm90::launch_prefill<dim>(exec, data.args(index), layout, workspace.data()).or_throw(); }
};

/// Lists of `members` neighbours joined, in memory of their own.
struct joined_lists {
  lacuna::index_layout layout;
  bench::buffer<std::byte> memory;
  lacuna::union_lists body;

  joined_lists(call const& c, int members)
      : layout{layout_of(c, members)},
        memory{static_cast<index_t>(lacuna::index_bytes(layout))},
        body{c.data.shape, {}, c.index, lacuna::make_index(layout, memory.data())} {}

  static lacuna::index_layout layout_of(call const& c, int members) {
    lacuna::index_layout l = c.layout;
    l.tile_rows = members, l.capacity = lacuna::union_lists::joined_capacity(l, members, c.data.shape.keys);
    return l;
  }
  void join(lacuna::cuda_executor const& exec) const { exec.launch({body.blocks(), lacuna::union_lists::team_size}, body).or_throw(); }
};

/// Keys that the lists name, the first `rows` rows of an index in device memory.
double keys_in(lacuna::index_layout const& layout, bench::buffer<std::byte> const& memory, lacuna::attention_shape const& shape) {
  auto image = memory.read();
  auto const x = lacuna::make_index(layout, image.data());
  double keys = 0;
  for (int h = 0; h < x.heads; ++h)
    for (index_t tile = 0; tile < x.tiles; ++tile)
      keys += static_cast<double>(x.row({0, shape.queries, 0, shape.keys}, 0, h, tile).span_keys());
  return keys;
}

void measure(bench::case_list const& cases, lacuna::cuda_executor const& exec, std::string const& id, bench::selection const& choice) {
  if (!cases.wants(id.c_str()) && !cases.wants((id + "j").c_str())) return;
  for (float const strength : {1.0f, 2.0f}) {
    call const c{exec, {1, 131072, 131072, 32, 2}, choice, {.strength = strength}};
    joined_lists const joined{c, 8};
    auto const join = bench::milliseconds(exec, 5, [&] { joined.join(exec); });
    auto const total = bench::milliseconds(exec, 5, [&] { c.attend(); });
    double const lists = keys_in(c.layout, c.memory, c.data.shape), unions = keys_in(joined.layout, joined.memory, c.data.shape);
    char note[96];
    std::snprintf(note, sizeof note, "topics of strength %g: the union of 8 lists is %.2f of one", strength, 8 * unions / lists);
    double const pairs = bench::visited_pairs(c.layout, c.memory.data(), c.data.shape);
    bench::report_pairs(id.c_str(), total, pairs, dim, note);
    bench::report_bytes((id + "j").c_str(), join, 2 * 8.0 * lists / choice.block + 16 * unions / choice.block, "joining alone");
  }
}

/// Largest error of a row relative to its norm.
double worst_row(std::vector<bench::bf16> const& got, std::vector<bench::bf16> const& right) {
  double worst = 0;
  for (std::size_t row = 0; row < right.size(); row += dim) {
    double error = 0, norm = 0;
    for (std::size_t i = row; i < row + dim; ++i) {
      double const x = static_cast<float>(right[i]), e = static_cast<float>(got[i]) - x;
      error += e * e, norm += x * x;
    }
    double const relative = std::sqrt(error / norm);
    if (!(relative <= worst)) worst = std::isnan(relative) ? INFINITY : relative;
  }
  return worst;
}

void compare(lacuna::cuda_executor const& exec, index_t tokens) {
  call const c{exec, {1, tokens, tokens, 32, 2}, {.initial = 1, .local = 3, .best = 5}, {.strength = 1}};
  c.attend();
  exec.synchronize().or_throw();
  auto const got = c.data.out_memory().read();
  auto const args = c.data.args(c.index);
  lacuna::attend_row<std::remove_const_t<decltype(args)>> const body{args, {}};
  exec.launch({body.blocks(), 128}, body).or_throw();
  exec.synchronize().or_throw();
  double const error = worst_row(got, c.data.out_memory().read());
  std::printf("check %lld tokens: error %.1e %s\n", static_cast<long long>(tokens), error, error < 1e-2 ? "ok" : "WRONG");
}

}  // namespace

int main(int argc, char** argv) {
  bench::case_list const cases{argc, argv};
  auto const exec = bench::make_executor();
  if (cases.wants("check"))
    for (index_t const tokens : {1, 100, 2003}) compare(exec, tokens);
  measure(cases, exec, "I2", {});
  measure(cases, exec, "I2k", {.initial = 1, .local = 8, .best = 7});
}
