#include <lacuna/eviction/h2o.hpp>
#include <lacuna/eviction/keep_prefix.hpp>
#include <lacuna/eviction/last_recent.hpp>
#include <lacuna/eviction/random_eviction.hpp>
#include <lacuna/eviction/recent_window.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace {

using lacuna::cached_token, lacuna::infinity;

cached_token at(std::int32_t position, std::int32_t next, float score = 0) { return {0, 0, position, next, score}; }

TEST_CASE("last_recent behind keep_prefix puts token t into slot s + (t - C) mod (C - s)") {
  constexpr std::int32_t capacity = 7;
  for (std::int32_t const sinks : {0, 1, 3, 6}) {
    lacuna::keep_prefix<lacuna::last_recent> const policy{{}, sinks};
    policy.check(capacity);
    std::vector<std::int32_t> slots(capacity);
    std::iota(slots.begin(), slots.end(), 0);
    for (std::int32_t t = capacity; t < 60; ++t) {
      auto const leaves = std::min_element(slots.begin(), slots.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair{policy.priority(at(a, t)), a} < std::pair{policy.priority(at(b, t)), b};
      });
      CHECK(leaves - slots.begin() == sinks + (t - capacity) % (capacity - sinks));
      *leaves = t;
    }
  }
}

TEST_CASE("decorators keep what they name and leave the rest to their policy") {
  using policy = lacuna::recent_window<lacuna::keep_prefix<lacuna::h2o>>;
  policy const p{{{}, 4}, 8};
  CHECK(p.kept_tokens() == 12);
  CHECK(policy::evidence.weights);
  for (std::int32_t position = 0; position < 100; ++position) {
    bool const kept = position < 4 || position >= 92;
    CHECK(p.priority(at(position, 100, 0.25f)) == (kept ? infinity : 0.25f));
  }
  CHECK(p.observe(1, {.weight = 2, .value_norm = 0, .total = 0, .queries = 1}) == 3);
}

TEST_CASE("h2o decays, normalises by age and weighs values") {
  lacuna::observed_weight const seen{.weight = 2, .value_norm = 3, .total = 12, .queries = 4};
  CHECK(lacuna::h2o{{.decay = 0.5f}}.observe(8, seen) == 6);
  CHECK(lacuna::h2o_value_norm{}.observe(1, seen) == 3);
  CHECK(lacuna::h2o_value_norm{}.observe(1, {.weight = 2, .value_norm = 0, .total = 0, .queries = 4}) == 1);
  CHECK(lacuna::h2o{{.normalize = true}}.priority(at(90, 100, 5)) == 0.5f);
  CHECK(lacuna::h2o{{.normalize = true, .born_at_least = 95}}.priority(at(90, 100, 5)) == 1);
}

TEST_CASE("random eviction depends on seed, batch entry, head and position only, and spreads") {
  std::set<float> values;
  for (std::uint32_t const seed : {0u, 1u})
    for (int b = 0; b < 3; ++b)
      for (int head = 0; head < 3; ++head)
        for (std::int32_t position = 0; position < 50; ++position) {
          lacuna::random_eviction const policy{seed};
          float const value = policy.priority({b, head, position, 100, 0});
          CHECK(value == policy.priority({b, head, position, 7, 3}));
          values.insert(value);
        }
  CHECK(values.size() > 890);  // of 900; a few of 2^24 may meet
}

TEST_CASE("amounts that do not fit are refused by name") {
  CHECK_THROWS_WITH_AS((lacuna::keep_prefix<lacuna::h2o>{{}, 8}.check(8)),
                       "keep_prefix has 8 tokens; expected at least 0 and fewer than the capacity 8", lacuna::invalid_argument);
  CHECK_THROWS_WITH_AS((lacuna::recent_window<lacuna::h2o>{{}, -1}.check(8)),
                       "recent_window has -1 tokens; expected at least 0 and fewer than the capacity 8", lacuna::invalid_argument);
  CHECK_THROWS_AS((lacuna::keep_prefix<lacuna::h2o>{{{.decay = 0}}, 2}.check(8)), lacuna::invalid_argument);
  CHECK_THROWS_AS(lacuna::h2o{{.born_at_least = -1}}.check(8), lacuna::invalid_argument);
}

}  // namespace
