#include <lacuna/kernels/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/place.hpp"

namespace {

using lacuna::index_t;
using lacuna::standing;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Scores with an excluded value and forced places.
struct masked_scores {
  float const* scores;
  standing const* standings;
  index_t count;

  index_t size() const { return count; }
  float score(index_t i) const { return scores[i]; }
  standing standing_of(index_t i) const { return standings[i]; }
};

struct select_masked {
  masked_scores row;
  index_t keep;
  std::int32_t* out;
  index_t* count;

  index_t blocks() const { return 1; }
  std::size_t scratch_bytes() const { return lacuna::top_k<masked_scores>::scratch_bytes; }
  template <class Team>
  void operator()(Team& team, index_t) const {
    index_t const n = lacuna::top_k<masked_scores>{row, keep}(team, team.scratch(), out);
    if (team.rank() == 0) *count = n;
  }
};

/// The definition: forced ones, then a stable sort by descending score with NaN last.
std::vector<std::int32_t> best(std::vector<float> const& scores, std::vector<standing> const& standings, index_t keep) {
  std::vector<std::int32_t> chosen, ranked;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(scores.size()); ++i) {
    if (standings[i] == standing::forced) chosen.push_back(i);
    if (standings[i] == standing::ranked) ranked.push_back(i);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](int a, int b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) return !std::isnan(scores[a]);
    return scores[a] > scores[b];
  });
  index_t const room = std::clamp<index_t>(keep - static_cast<index_t>(chosen.size()), 0, static_cast<index_t>(ranked.size()));
  chosen.insert(chosen.end(), ranked.begin(), ranked.begin() + room);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

template <class Exec>
std::vector<std::int32_t> select(Exec const& exec, std::vector<float> const& scores, std::vector<standing> const& standings, index_t keep) {
  std::vector<std::int32_t> out(scores.size() + 1, -7);
  index_t count = -1;
  select_masked const body{{scores.data(), standings.data(), static_cast<index_t>(scores.size())}, keep, out.data(), &count};
  exec.launch({1, 128}, body).or_throw();
  CHECK(out[count] == -7);
  out.resize(count);
  return out;
}

template <class Exec>
std::vector<std::int32_t> select(Exec const& exec, std::vector<float> const& scores, index_t keep) {
  return select(exec, scores, std::vector<standing>(scores.size(), standing::ranked), keep);
}

std::vector<std::int32_t> best(std::vector<float> const& scores, index_t keep) {
  return best(scores, std::vector<standing>(scores.size(), standing::ranked), keep);
}

std::vector<float> random_scores(index_t count, unsigned seed) {
  std::mt19937 engine{seed};
  std::normal_distribution<float> normal;
  std::vector<float> scores(count);
  for (auto& x : scores) x = normal(engine);
  return scores;
}

lacuna::host_executor const host{1};

TEST_CASE("top_k equals a stable sort for odd sizes and amounts") {
  for (index_t const n : {0, 1, 2, 63, 64, 65, 249, 1000})
    for (index_t const keep : {index_t{0}, index_t{1}, n / 3, n - 1, n, n + 1, index_t{2048}}) {
      auto const scores = random_scores(n, static_cast<unsigned>(n));
      CHECK(select(host, scores, keep) == best(scores, keep));
    }
}

TEST_CASE("top_k gives ties to the lower index and the same set on every launch") {
  auto scores = random_scores(4096, 4);
  std::mt19937 engine{5};
  for (auto& x : scores)
    if (engine() % 10 < 7) x = engine() % 2 ? 0.0f : -0.0f;
  auto const right = best(scores, 2048);
  for (int launch = 0; launch < 50; ++launch) CHECK(select(host, scores, 2048) == right);
}

TEST_CASE("top_k keeps a whole row that is shorter than the amount") {
  for (index_t const n : {0, 249, 2048}) {
    std::vector<float> const scores(n, 1.5f);
    std::vector<std::int32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    CHECK(select(host, scores, 2048) == all);
  }
}

TEST_CASE("top_k is exact with more candidates than any buffer") {
  for (index_t const n : {40'000, (1 << 20) + 3}) {
    auto scores = random_scores(n, 17);
    for (index_t i = 0; i < n; i += 3) scores[i] = 0.25f;
    for (index_t const keep : {n / 4, n / 2}) CHECK(select(host, scores, keep) == best(scores, keep));
  }
}

TEST_CASE("top_k ranks NaN of either sign below -inf and equal to each other") {
  std::vector<float> const scores{nan, -inf, 3, -nan, inf, -3, nan, std::numeric_limits<float>::denorm_min(), -inf};
  for (index_t keep = 0; keep <= 9; ++keep) CHECK(select(host, scores, keep) == best(scores, keep));
  CHECK(select(host, scores, 6) == std::vector<std::int32_t>{1, 2, 4, 5, 7, 8});
  CHECK(select(host, scores, 7) == std::vector<std::int32_t>{0, 1, 2, 4, 5, 7, 8});
}

TEST_CASE("top_k never returns excluded entries and always returns forced ones") {
  std::mt19937 engine{6};
  for (int round = 0; round < 200; ++round) {
    index_t const n = engine() % 300;
    auto const scores = random_scores(n, engine());
    std::vector<standing> standings(n);
    for (auto& s : standings) s = static_cast<standing>(engine() % 3);
    index_t const keep = engine() % 320;
    CHECK(select(host, scores, standings, keep) == best(scores, standings, keep));
  }
}

TEST_CASE("a forced entry does not read its score and does not push out an infinite one") {
  std::vector<float> const scores{nan, inf, inf, 1};
  std::vector<standing> const standings{standing::forced, standing::ranked, standing::ranked, standing::excluded};
  CHECK(select(host, scores, standings, 2) == std::vector<std::int32_t>{0, 1});
  CHECK(select(host, scores, standings, 0) == std::vector<std::int32_t>{0});
  CHECK(select(host, scores, standings, 4) == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE("top_k does not depend on the team's size") {
  for (int const members : {2, 3, 7}) {
    test::threaded_executor const exec{members};
    for (index_t const n : {0, 1, 5, 300}) {
      auto scores = random_scores(n, 8);
      for (index_t i = 0; i < n; i += 2) scores[i] = 0.5f;
      for (index_t const keep : {index_t{1}, n / 2, n}) CHECK(select(exec, scores, keep) == best(scores, keep));
    }
  }
}

TEST_CASE("top_k_rows writes each row's indices and count") {
  index_t const rows = 5, n = 70, keep = 9;
  auto const scores = random_scores(rows * n, 9);
  std::vector<std::int32_t> chosen(rows * keep), count(rows);
  lacuna::top_k_rows const body{scores.data(), rows, n, keep, chosen.data(), count.data()};
  lacuna::host_executor{2}.launch({body.blocks(), 128}, body).or_throw();
  for (index_t r = 0; r < rows; ++r) {
    std::vector<float> const row(scores.begin() + r * n, scores.begin() + (r + 1) * n);
    CHECK(count[r] == keep);
    CHECK(std::vector<std::int32_t>(chosen.begin() + r * keep, chosen.begin() + (r + 1) * keep) == best(row, keep));
  }
}

}  // namespace
