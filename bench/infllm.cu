// InfLLM-V2's attention on a GPU: `bench_infllm [id...]` times target I2 over lists that its selection chose on data with topics; I2u is
// what joining neighbouring tokens' lists takes of it. `check` compares small shapes with the portable body and the selection with float64.
#include "pooled_selection.cuh"

#include <lacuna/kernels/sm90/joining.hpp>

#include <set>

namespace {

using bench::attention_shape, bench::bf16, bench::index_t, bench::pooled_amounts, bench::pooled_selection;

constexpr float topic = 1;

using prefill = bench::prefill<bf16, 128, bench::given_lists<64>>;

void select(prefill const& p, pooled_amounts const& a) {
  pooled_selection const selection{p.q, p.k, a};
  selection.fill(p.exec.stream(), p.index());
  p.exec.synchronize().or_throw();
}

/// Joins the lists of a plan as its body does.
struct joining {
  prefill const& p;
  lacuna::sm90::list_joining how;
  lacuna::index_layout layout;
  bench::buffer<std::byte> memory;

  explicit joining(prefill const& prefill_)
      : p{prefill_},
        how{lacuna::sm90::list_joining::of(p.plan.layout(), p.plan.shape())},
        layout{how.layout(p.plan.layout(), p.plan.shape())},
        memory{lacuna::index_bytes(layout)} {}

  void run() const { how.run(p.exec, p.plan.shape(), {}, p.index(), lacuna::make_index(layout, memory.data)).or_throw(); }

  /// Keys of the joined lists over keys of the lists of their last tokens.
  double spread() const {
    auto joined_image = bench::get(memory.data, lacuna::index_bytes(layout));
    auto own_image = bench::get(reinterpret_cast<std::byte*>(p.index().row_count), lacuna::index_bytes(p.plan.layout()));
    auto const joined = lacuna::make_index(layout, joined_image.data()), own = lacuna::make_index(p.plan.layout(), own_image.data());
    auto const s = lacuna::sequence_at({}, p.plan.shape(), 0);
    double all = 0, one = 0;
    for (index_t tile = 0; tile < joined.tiles; ++tile) {
      all += static_cast<double>(joined.row(s, 0, 0, tile).span_keys());
      one += static_cast<double>(own.row(s, 0, 0, std::min((tile + 1) * how.members, own.tiles) - 1).span_keys());
    }
    return all / one;
  }
};

void attention(bench::session const& session, char const* id, attention_shape const& s, pooled_amounts const& a) {
  if (!session.wanted(id)) return;
  prefill const p{session.exec(), s, pooled_selection::lists(s.kv_heads, a), topic};
  select(p, a);
  auto const attend = bench::time_runs(p.exec.stream(), 3, [&] { p.attend(); });
  joining const join{p};
  auto const joined = bench::time_runs(p.exec.stream(), 5, [&] { join.run(); });
  double const flop = p.flop();
  char note[96];
  std::snprintf(note, sizeof note, "joining %d lists; joined ones have %.2f times the keys of one", join.how.members, join.spread());
  bench::print_line((std::string{id} + "u").c_str(), joined, flop, "TFLOP/s", note);
  bench::print_line(id, attend, flop, "TFLOP/s", p.plan.body() + ": " + p.plan.reason());
}

/// Scores of the blocks of one token in float64, from the definition.
std::vector<double> block_scores(std::vector<bf16> const& q, std::vector<bf16> const& k, attention_shape const& s, int kv_head,
                                 index_t token) {
  index_t const windows = std::max<index_t>(0, (token + 1 - 32) / 16 + (token + 1 >= 32));
  std::vector<double> sums(windows, 0), blocks(token / 64 + 1, -1);
  for (int h = 0; h < 16; ++h) {
    std::vector<double> logits(windows);
    double total = 0;
    for (index_t w = 0; w < windows; ++w) {
      double dot = 0;
      for (int d = 0; d < 128; ++d) {
        double mean = 0;
        for (int i = 0; i < 32; ++i) mean += double(float(k[((w * 16 + i) * s.kv_heads + kv_head) * 128 + d])) / 32;
        dot += mean * double(float(q[(token * s.query_heads + kv_head * 16 + h) * 128 + d]));
      }
      logits[w] = std::exp(dot / std::sqrt(128.0)), total += logits[w];
    }
    for (index_t w = 0; w < windows; ++w) sums[w] += logits[w] / total;
  }
  for (index_t b = 0; b < static_cast<index_t>(blocks.size()); ++b)
    for (index_t w = std::max<index_t>(0, 4 * b - 1); w <= std::min(4 * b + 3, windows - 1); ++w) blocks[b] = std::max(blocks[b], sums[w]);
  return blocks;
}

/// Every chosen block scores at least what every other one scores, within 1e-4: float32 sums of 128 products and exponentials.
void check_selection(lacuna::cuda_executor const& exec, attention_shape const& s, pooled_amounts const& a) {
  prefill const p{exec, s, pooled_selection::lists(s.kv_heads, a), topic};
  select(p, a);
  auto const q = bench::get(p.q.view().data, p.q.size()), k = bench::get(p.k.view().data, p.k.size());
  auto image = bench::get(reinterpret_cast<std::byte*>(p.index().row_count), lacuna::index_bytes(p.plan.layout()));
  auto const x = lacuna::make_index(p.plan.layout(), image.data());
  auto const whole = lacuna::sequence_at({}, s, 0);
  int wrong = 0, tokens = 0;
  for (index_t token = 0; token < s.queries; token += 37, ++tokens) {
    int const own = static_cast<int>(token / 64), head = static_cast<int>(token % s.kv_heads);
    auto const row = x.row(whole, 0, head, token);
    std::set<int> kept;
    for (int e = 0; e < row.own_count; ++e)
      for (int b = row.own[e].begin / 64; b < row.own[e].end / 64; ++b) kept.insert(b);
    auto const scores = block_scores(q, k, s, head, token);
    double least = 1e9, most = -1;
    int chosen = 0, candidates = 0;
    bool forced_there = true;
    for (int b = 0; b <= own; ++b) {
      if (b < a.first || b > own - a.local) {
        forced_there = forced_there && kept.contains(b);
      } else if (++candidates; kept.contains(b)) {
        least = std::min(least, scores[b]), ++chosen;
      } else {
        most = std::max(most, scores[b]);
      }
    }
    wrong += !forced_there || chosen != std::min(candidates, a.top) || most > least * (1 + 1e-4) || (!kept.empty() && *kept.rbegin() > own);
  }
  std::printf("check selection q%d H%d:%d  %d of %d tokens differ from float64 %s\n", int(s.queries), s.query_heads, s.kv_heads, wrong,
              tokens, wrong == 0 ? "ok" : "WRONG");
}

void check_all(lacuna::cuda_executor const& exec) {
  for (index_t const n : {1, 31, 65, 700, 2049}) {
    attention_shape const s{1, n, n, 32, 2};
    pooled_amounts const few{1, 3, 5};
    bench::check_small<bf16, 128>(
        exec, "InfLLM 1+3+5", s, pooled_selection::lists(s.kv_heads, few), [&](auto const& p) { select(p, few); }, topic);
    check_selection(exec, s, few);
  }
}

void run(bench::session const& session) {
  if (session.wanted("check")) check_all(session.exec());
  attention(session, "I2s", {1, 32768, 32768, 32, 2}, {});
  attention(session, "I2", {1, 131072, 131072, 32, 2}, {});
}

}  // namespace

int main(int argc, char** argv) { return bench::run_cases(argc, argv, run); }
