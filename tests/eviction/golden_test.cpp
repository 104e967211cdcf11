// Whole traces of the policies that score by attention, against tests/data/golden_eviction.json: a small cache in plain loops that asks the
// policies under test for scores and ranks.
#include <lacuna/eviction/h2o.hpp>
#include <lacuna/eviction/recent_window.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int batch = 2, query_heads = 4, kv_heads = 2, dim = 8, capacity = 24, chunk = 4, chunks = 5, group = query_heads / kv_heads;

using row = std::array<double, dim>;
using rows = std::vector<std::vector<std::vector<row>>>;  // [batch][head][token]

/// The trace's inputs: multiples of 1/512 from a linear congruential generator.
class generator {
 public:
  rows draw(int heads, int tokens) {
    rows all(batch, std::vector<std::vector<row>>(heads, std::vector<row>(tokens)));
    for (auto& heads_of : all)
      for (auto& tokens_of : heads_of)
        for (auto& x : tokens_of)
          for (auto& value : x) value = next();
    return all;
  }

 private:
  double next() {
    state_ = 1664525u * state_ + 1013904223u;
    return (static_cast<int>((state_ >> 16) % 2048) - 1024) / 512.0;
  }
  std::uint32_t state_ = 12345;
};

struct token {
  row key, value;
  float score = 0;
};
using cache_row = std::map<std::int32_t, token>;  // by position

/// Summed weights of a chunk over the tokens of a row, mean over the group.
std::map<std::int32_t, double> weights_of(cache_row const& cached, rows const& q, int b, int head, std::int32_t first) {
  std::map<std::int32_t, double> sums;
  for (int h = head * group; h < (head + 1) * group; ++h)
    for (std::size_t i = 0; i < q[b][h].size(); ++i) {
      std::map<std::int32_t, double> weight;
      double sum = 0;
      for (auto const& [position, t] : cached) {
        if (position > first + static_cast<std::int32_t>(i)) continue;
        double dot = 0;
        for (int d = 0; d < dim; ++d) dot += q[b][h][i][d] * t.key[d];
        sum += weight[position] = std::exp(dot / std::sqrt(double(dim)));
      }
      for (auto const& [position, w] : weight) sums[position] += w / sum / group;
    }
  return sums;
}

double norm_of(row const& x) {
  double sum = 0;
  for (double const v : x) sum += v * v;
  return std::sqrt(sum);
}

using evicted_tokens = std::vector<std::int32_t>;  // [chunk, batch, head, chunk] positions, ascending in a row

/// What leaves one row when `n` tokens come. The first eviction after a prefill that was not scored is positional.
template <class Policy>
std::vector<std::int32_t> leaving(Policy const& policy, cache_row const& cached, int r, int n, std::int32_t next, bool by_position) {
  std::vector<std::pair<float, std::int32_t>> ranked;
  for (auto const& [position, t] : cached) {
    float const rank = policy.priority({r / kv_heads, r % kv_heads, position, next, t.score});
    ranked.emplace_back(by_position ? (position < capacity / 20 ? lacuna::infinity : 0) : rank, position);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::int32_t> out;
  for (int i = 0; i < n; ++i) out.push_back(ranked[i].second);
  std::sort(out.begin(), out.end());
  return out;
}

template <class Policy>
void observe(Policy const& policy, std::vector<cache_row>& cache, rows const& q, std::int32_t first) {
  std::vector<std::map<std::int32_t, double>> weights;
  for (int r = 0; r < batch * kv_heads; ++r) weights.push_back(weights_of(cache[r], q, r / kv_heads, r % kv_heads, first));
  for (int r = 0; r < batch * kv_heads; ++r) {
    double total = 0;
    for (auto const& [position, t] : cache[r]) total += weights[r][position] * norm_of(t.value);
    for (auto& [position, t] : cache[r]) {
      double weight = weights[r][position];
      if (lacuna::shares_batch(policy)) weight = weights[r % kv_heads][position] + weights[kv_heads + r % kv_heads][position];
      t.score = policy.observe(t.score, {.weight = static_cast<float>(weight),
                                         .value_norm = static_cast<float>(norm_of(t.value)),
                                         .total = static_cast<float>(total),
                                         .queries = static_cast<lacuna::index_t>(q[0][0].size())});
    }
  }
}

template <class Policy>
evicted_tokens trace(Policy const& policy, bool scored_prefill) {
  generator numbers;
  std::vector<cache_row> cache(batch * kv_heads);
  evicted_tokens all;
  std::int32_t next = 0;
  for (int call = 0; call <= chunks; ++call) {
    int const n = call ? chunk : capacity;
    auto const q = numbers.draw(query_heads, n), k = numbers.draw(kv_heads, n), v = numbers.draw(kv_heads, n);
    for (int r = 0; r < batch * kv_heads; ++r) {
      if (call > 0)
        for (auto const position : leaving(policy, cache[r], r, n, next, call == 1 && !scored_prefill))
          cache[r].erase(position), all.push_back(position);
      for (int i = 0; i < n; ++i) cache[r][next + i] = {k[r / kv_heads][r % kv_heads][i], v[r / kv_heads][r % kv_heads][i]};
    }
    if (call > 0 || scored_prefill) observe(policy, cache, q, next);
    next += n;
  }
  return all;
}

/// The integers of a trace's "evicted" in their order.
evicted_tokens golden(std::string const& name) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../data/golden_eviction.json");
  std::string const text(std::istreambuf_iterator<char>(file), {});
  auto const from = text.find("\"evicted\"", text.find("\"" + name + "\": {"));
  auto const past = text.find("\"gaps\"", from);
  REQUIRE(past != std::string::npos);
  evicted_tokens all;
  for (auto at = from; at < past; ++at) {
    if (text[at] < '0' || text[at] > '9') continue;
    all.push_back(0);
    for (; text[at] >= '0' && text[at] <= '9'; ++at) all.back() = all.back() * 10 + (text[at] - '0');
  }
  return all;
}

TEST_CASE("h2o evicts what the golden traces evict") {
  CHECK(golden("h2o").size() == chunks * batch * kv_heads * chunk);
  CHECK(trace(lacuna::h2o{}, false) == golden("h2o"));
  CHECK(trace(lacuna::h2o{}, true) == golden("h2o_scored_prefill"));
  CHECK(trace(lacuna::h2o{{.normalize = true}}, false) == golden("h2o_norm"));
  CHECK(trace(lacuna::h2o{{.normalize = true, .born_at_least = capacity - 1}}, false) == golden("h2o_norm_reference"));
  CHECK(trace(lacuna::h2o_value_norm{}, false) == golden("h2o_vlen"));
  CHECK(trace(lacuna::recent_window<lacuna::h2o>{{}, 6}, false) == golden("h2o_recent6"));
}

TEST_CASE("rows of a batch that share scores evict what the golden trace evicts") {
  CHECK(trace(lacuna::h2o{{.batch_shared = true}}, false) == golden("h2o_orig"));
}

}  // namespace
