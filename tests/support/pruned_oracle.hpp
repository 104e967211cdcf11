#pragma once
#include <lacuna/pattern/pruned.hpp>

#include <cmath>
#include <concepts>
#include <vector>

#include "support/pattern_problem.hpp"

namespace test {

/// InfiniteHiP's pruning by its description: plain loops in double over lists of tokens.
struct pruned_oracle {
  enum class rule { halving, path_halving, midpoint, every_token, spaced_2, bound, mean };
  enum class chooser { best, mass, near };

  struct stage {
    int chunk, keep, query_block, pool;
    rule judge;
    chooser choose = chooser::best;
    double amount = 0;
  };

  struct result {
    std::vector<index_t> tokens;  // kept, ascending
    index_t end = 0;              // of what was scanned
  };

  pattern_problem const& p;
  std::vector<stage> stages;
  index_t sinks, window, scan_window, stride;
  int lists;
  lacuna::scan_rope rope;
  std::vector<double> radians;
  double gap = 1e9;  // least difference that decided anything

  /// Keys that a tile of queries reads, ascending.
  std::vector<std::int32_t> keys(index_t b, int list, index_t tile) {
    auto const s = p.sequence(b);
    int const rows = stages.back().query_block;
    index_t const first = s.position(tile * rows),
                  limit = p.causal ? std::clamp<index_t>(s.position(std::min((tile + 1) * rows, s.queries)), 0, s.keys) : s.keys;
    std::vector<std::int32_t> keys;
    if (tile * rows >= s.queries) return keys;
    index_t const own = tile * rows / stages[0].query_block, lead = leader(s, own);
    result const r =
        scan(b, list, static_cast<int>(stages.size()) - 1, lead == own ? tile : (lead + 1) * (stages[0].query_block / rows) - 1);
    for (index_t t = 0; t < limit; ++t) {
      bool const kept = std::binary_search(r.tokens.begin(), r.tokens.end(), t);
      if (t < sinks || kept || t >= std::min(r.end, first - window)) keys.push_back(static_cast<std::int32_t>(t));
    }
    return keys;
  }

  /// What stage `i` keeps for its block `m`.
  result scan(index_t b, int list, int i, index_t m) {
    auto const s = p.sequence(b);
    stage const& now = stages[i];
    result in;
    if (i == 0) {
      in.end = std::max(std::min(s.position(m * now.query_block) - scan_window, s.keys), sinks);
      for (index_t t = sinks; t < in.end; ++t) in.tokens.push_back(t);
    } else {
      in = scan(b, list, i - 1, m * now.query_block / stages[i - 1].query_block);
    }
    std::vector<std::vector<index_t>> chunks;
    for (std::size_t t = 0; t < in.tokens.size(); ++t) {
      if (t % now.chunk == 0) chunks.emplace_back();
      chunks.back().push_back(in.tokens[t]);
    }
    std::vector<double> score(chunks.size(), -1e300);
    int const heads = p.shape.query_heads / lists;
    index_t const grid = (in.end - sinks + now.chunk - 1) / now.chunk;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      bool const ranked = rope.numbers == lacuna::chunk_numbers::rank;
      index_t const number = ranked ? static_cast<index_t>(c) : (chunks[c][0] - sinks) / now.chunk;
      for (int h = list * heads; h < (list + 1) * heads; ++h)
        score[c] = std::max(score[c], judge(b, h, m, now, chunks[c], number, ranked ? static_cast<index_t>(chunks.size()) : grid));
    }
    result out{{}, in.end};
    for (std::size_t const c : choose(now, score)) out.tokens.insert(out.tokens.end(), chunks[c].begin(), chunks[c].end());
    return out;
  }

 private:
  index_t leader(lacuna::sequence const& s, index_t m) const {
    index_t const blocks = (s.queries + stages[0].query_block - 1) / stages[0].query_block;
    while (m > 0 && (blocks - 1 - m) % stride != 0) --m;
    return m;
  }

  void decided(double a, double b) { gap = std::min(gap, std::abs(a - b)); }

  double judge(index_t b, int h, index_t m, stage const& now, std::vector<index_t> const& chunk, index_t number, index_t chunks) {
    auto const probe = [&](index_t offset, bool right) {
      return best(b, h, m, now, key(b, h, chunk[offset]), chunk[offset], right, number, chunks);
    };
    index_t const n = static_cast<index_t>(chunk.size());
    if (now.judge == rule::every_token) {
      double most = -1e300;
      for (index_t t = 0; t < n; ++t) most = std::max(most, probe(t, false));
      return most;
    }
    if (now.judge == rule::spaced_2) {
      if (n == 1) return probe(0, false);
      return std::max(probe(n / 4, false), probe(3 * n / 4, false));
    }
    if (now.judge == rule::mean) {
      std::vector<double> sum(p.shape.key_dim);
      auto const all = whole_chunk(b, chunk[0], now.chunk);
      for (index_t const t : all)
        for (int d = 0; d < p.shape.key_dim; ++d) sum[d] += key(b, h, t)[d] / double(all.size());
      return best(b, h, m, now, sum, chunk[0], false, number, chunks);
    }
    if (now.judge == rule::bound) return bound(b, h, m, now, whole_chunk(b, chunk[0], now.chunk), number, chunks);
    return search(now, n, probe);
  }

  /// Pages are the sequence's: they do not end where the scan does.
  std::vector<index_t> whole_chunk(index_t b, index_t begin, int tokens) const {
    std::vector<index_t> all;
    for (index_t t = begin; t < std::min(begin + tokens, p.sequence(b).keys); ++t) all.push_back(t);
    return all;
  }

  template <class Probe>
  double search(stage const& now, index_t n, Probe const& probe) {
    bool const middle = now.judge == rule::midpoint;
    int steps = static_cast<int>(std::ceil(std::log2(double(n))));
    steps = middle ? steps + 1 : std::max(steps, 1);
    index_t first = 0, last = n;
    double path = -1e300, winner = 0;
    for (; steps > 0; --steps) {
      index_t const mid = first + (last - first) / 2;
      index_t const l = middle ? (first + mid) / 2 : first, r = middle ? (mid + last) / 2 : mid;
      double const left = probe(l, false), right = probe(r, true);
      if (l != r) decided(left, right);
      bool const goes_left = middle ? left > right : left >= right;
      winner = goes_left ? left : right, path = std::max(path, winner);
      if (last - first > 1) (goes_left ? last : first) = mid;
    }
    return now.judge == rule::halving ? winner : path;
  }

  std::vector<double> key(index_t b, int h, index_t t) const {
    auto const in = p.inputs();
    float const* const k = in.kv.key(p.sequence(b), b, p.shape.kv_head(h), t);
    return {k, k + p.shape.key_dim};
  }

  std::vector<double> rotated(std::vector<double> x, double position) const {
    std::size_t const n = radians.size();
    for (std::size_t i = 0; i < n; ++i) {
      bool const halves = rope.table.pairing == lacuna::rope_pairing::halves;
      std::size_t const at = halves ? i : 2 * i, to = halves ? i + n : 2 * i + 1;
      double const c = std::cos(position * radians[i]), s = std::sin(position * radians[i]), a = x[at], b = x[to];
      x[at] = a * c - b * s, x[to] = a * s + b * c;
    }
    return x;
  }

  /// The style's positions, as its description gives them.
  std::pair<double, double> positions(index_t query, index_t token, bool near, bool right, index_t number, index_t chunks,
                                      index_t longest) const {
    using lacuna::scan_style;
    double const p0 = double(std::max<index_t>(query, 0));
    if (rope.style == scan_style::relative) return {rope.distance + 1.0, right ? 1.0 : 0.0};
    if (rope.style == scan_style::infllm) return {rope.distance, 0.0};
    if (rope.style == scan_style::chunk_indexed) return {std::min(p0, double(chunks + rope.distance)), double(number + rope.first_number)};
    double const s = std::max(1.0, std::ceil(double(longest) / rope.trained));
    if (near) return {p0, double(token)};
    return {std::floor(p0 / s) + rope.near - std::floor(rope.near / s), std::floor(double(token) / s)};
  }

  /// Pooled queries, each with the position that decides whether a key is near.
  template <class Use>
  void each_query(index_t b, int h, index_t m, stage const& now, index_t token, bool right, index_t number, index_t chunks,
                  Use const& use) const {
    auto const s = p.sequence(b);
    auto const in = p.inputs();
    index_t const begin = m * now.query_block, end = std::min(begin + now.query_block, s.queries);
    for (index_t first = begin; first < end; first += now.pool) {
      index_t const past = std::min(first + now.pool, end);
      bool const near = s.position(past - 1) - token < rope.near;
      std::vector<double> q(p.shape.key_dim);
      double at = 0;
      for (index_t i = first; i < past; ++i) {
        float const* const x = in.q.row(b, s.first_query + i, h);
        std::vector<double> one(x, x + p.shape.key_dim);
        auto const [query, where] = positions(s.position(i), token, near, right, number, chunks, s.keys - 1);
        if (rope.style != lacuna::scan_style::as_given) one = rotated(one, query), at = where;
        for (int d = 0; d < p.shape.key_dim; ++d) q[d] += one[d] / double(past - first);
      }
      use(q, at);
    }
  }

  double best(index_t b, int h, index_t m, stage const& now, std::vector<double> const& k, index_t token, bool right, index_t number,
              index_t chunks) const {
    double most = -1e300;
    each_query(b, h, m, now, token, right, number, chunks, [&](std::vector<double> const& q, double at) {
      std::vector<double> const turned = rotated(k, at);
      double dot = 0;
      for (int d = 0; d < p.shape.key_dim; ++d) dot += q[d] * turned[d];
      most = std::max(most, dot);
    });
    return most;
  }

  double bound(index_t b, int h, index_t m, stage const& now, std::vector<index_t> const& tokens, index_t number, index_t chunks) const {
    double most = -1e300;
    each_query(b, h, m, now, tokens[0], false, number, chunks, [&](std::vector<double> const& q, double at) {
      double sum = 0;
      for (int d = 0; d < p.shape.key_dim; ++d) {
        double low = 1e300, high = -1e300;
        for (index_t const t : tokens) low = std::min(low, key(b, h, t)[d]), high = std::max(high, key(b, h, t)[d]);
        sum += std::max((rotated_back(q, at)[d]) * low, (rotated_back(q, at)[d]) * high);
      }
      most = std::max(most, sum);
    });
    return most;
  }

  /// q . R k = (R^-1 q) . k
  std::vector<double> rotated_back(std::vector<double> const& q, double at) const {
    return rope.style == lacuna::scan_style::as_given ? q : rotated(q, -at);
  }

  std::vector<std::size_t> choose(stage const& now, std::vector<double> const& score) {
    std::vector<std::size_t> order(score.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    auto const value = [&](std::size_t i) {
      if (now.judge != rule::midpoint) return score[i];
      return double(lacuna::to_float(lacuna::bfloat16{float(score[i])}));
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return value(a) > value(b); });
    std::size_t count = std::min<std::size_t>(now.keep / now.chunk, order.size());
    auto const logit = [&](std::size_t rank) { return value(order[rank]) * p.logits.scale; };
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < order.size(); ++i) total += std::exp(logit(i) - logit(0));
    for (std::size_t i = 0; i < count; ++i) {
      if (now.choose == chooser::near) {
        decided(logit(i), logit(0) - now.amount);
        if (logit(i) < logit(0) - now.amount) count = i;
      } else if (now.choose == chooser::mass) {
        sum += std::exp(logit(i) - logit(0));
        decided(sum / total, now.amount);
        if (sum >= now.amount * total) count = i + 1;
      }
    }
    if (count < order.size() && count > 0) {
      double const last = score[order[count - 1]], next = score[order[count]];
      if (now.judge == rule::midpoint)  // rounding to bf16 decides: no score near the cut may lie near the edge of two numbers
        for (double const x : score)
          decided(std::min(std::abs(x - last), std::abs(x - next)) > 2 * bf16_unit(last) ? 1e9 : rounding_margin(x), 0);
      else
        decided(last, next);
    }
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
  }

  static double bf16_unit(double x) { return std::ldexp(1.0, static_cast<int>(std::floor(std::log2(std::abs(x)))) - 7); }

  static double rounding_margin(double x) {
    double const unit = bf16_unit(x), at = std::abs(x) / unit;
    return std::abs(at - std::floor(at) - 0.5) * unit;
  }
};

/// Amounts around the stages.
struct around_stages {
  std::int32_t sinks = 256, window = 1024, scan_window = 0;
  lacuna::mask_scope scope = lacuna::mask_scope::kv_head;
  std::int32_t query_stride = 1;
  lacuna::scan_rope rope = {};
};

template <class... Stages>
lacuna::pruned<Stages...> pruned_by(lacuna::stage_list<Stages...> const& stage, around_stages const& a = {}) {
  return {a.sinks, a.window, a.scan_window, a.scope, a.query_stride, a.rope, stage};
}

template <class Stage>
pruned_oracle::stage describe(Stage const& s) {
  using namespace lacuna;
  using rule = typename Stage::rule_type;
  using oracle = pruned_oracle::rule;
  pruned_oracle::stage d{Stage::chunk, s.keep, s.query_block, s.pool, oracle::every_token};
  if constexpr (std::same_as<rule, halving>) d.judge = oracle::halving;
  if constexpr (std::same_as<rule, path_halving>) d.judge = oracle::path_halving;
  if constexpr (std::same_as<rule, midpoint_halving>) d.judge = oracle::midpoint;
  if constexpr (std::same_as<rule, spaced_tokens<2>>) d.judge = oracle::spaced_2;
  if constexpr (std::same_as<rule, min_max_bound>) d.judge = oracle::bound;
  if constexpr (std::same_as<rule, key_mean>) d.judge = oracle::mean;
  if constexpr (MassChooser<typename Stage::chooser_type>) d.choose = pruned_oracle::chooser::mass, d.amount = s.chooser.mass;
  if constexpr (LogitChooser<typename Stage::chooser_type>) d.choose = pruned_oracle::chooser::near, d.amount = s.chooser.distance;
  return d;
}

template <class... Stages>
pruned_oracle oracle_of(pattern_problem const& p, lacuna::pruned<Stages...> const& amounts, std::vector<double> const& radians) {
  pruned_oracle o{p,
                  {},
                  amounts.sinks,
                  amounts.window,
                  amounts.scan_window ? amounts.scan_window : amounts.window,
                  amounts.query_stride,
                  amounts.lists(p.shape),
                  amounts.rope,
                  radians};
  lacuna::for_each_stage(amounts.stage, [&](auto i) { o.stages.push_back(describe(amounts.stage.template get<i()>())); });
  return o;
}

/// Tiles whose lists are too close to call in fp32 are passed over.
template <class... Stages>
verdict against_definition(lacuna::sparse_index const& index, pattern_problem const& p, lacuna::pruned<Stages...> const& amounts,
                           std::vector<double> const& radians) {
  verdict v;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int list = 0; list < index.heads; ++list)
      for (index_t tile = 0; tile < index.tiles; ++tile) {
        auto o = oracle_of(p, amounts, radians);
        auto const right = o.keys(b, list, tile);
        ++v.seen;
        if (o.gap < 2e-5) continue;
        ++v.compared;
        auto const read = keys_of(index, p.sequence(b), b, list, tile);
        v.equal &= read.sound && read.keys == right;
      }
  return v;
}

template <class Exec, class... Stages>
verdict against_definition(Exec const& exec, pattern_problem const& p, lacuna::pruned<Stages...> const& amounts,
                           std::vector<double> const& radians) {
  return against_definition(build_index(exec, amounts, p).index, p, amounts, radians);
}

}  // namespace test
