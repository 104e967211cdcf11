#pragma once
#include <lacuna/pattern/pattern.hpp>

#include <numeric>
#include <utility>
#include <variant>
#include <vector>

namespace lacuna {

/// A kind and its amounts for every query head: what a searched profile holds. One launch per kind builds the lists (one more for every 32
/// further heads of a kind), one attend launch reads them. [MInference, section 3]
template <class... Kinds>
struct per_head {
  static_assert(sizeof...(Kinds) > 0 && (SparsePattern<Kinds> && ...), "kinds are static or built patterns");
  using kind = std::variant<Kinds...>;

  std::vector<kind> heads;  // of each query head

  void check(attention_shape const& s) const {
    require(static_cast<index_t>(heads.size()) == s.query_heads, "per_head has ", heads.size(), " heads; expected query_heads ",
            s.query_heads);
    for (std::size_t h = 0; h < heads.size(); ++h) check_head(h, s);
  }

  friend bool operator==(per_head const&, per_head const&) = default;

 private:
  void check_head(std::size_t h, attention_shape const& s) const {
    auto const rows = [](auto const& p) { return pattern_traits<std::remove_cvref_t<decltype(p)>>::tile_rows(p); };
    int const own = std::visit(rows, heads[h]), others = std::visit(rows, heads[0]);
    require(own == others, "head ", h, " has tiles of ", own, " queries, head 0 of ", others, "; expected the same for all heads");
    try {
      std::visit([&](auto const& p) { p.check(s); }, heads[h]);
    } catch (invalid_argument const& e) {
      throw invalid_argument{detail::concat("head ", h, ": ", e.what())};
    }
  }
};

template <class... Kinds>
struct pattern_traits<per_head<Kinds...>> {
  using pattern = per_head<Kinds...>;
  static constexpr int granularity = [] {
    int common = 0;
    ((common = std::gcd(common, int{pattern_traits<Kinds>::granularity})), ...);
    return common;
  }();

  static int lists(pattern const&, attention_shape const& s) { return s.query_heads; }

  static int tile_rows(pattern const& p) {
    return p.heads.empty() ? 64 : std::visit([](auto const& k) { return traits<decltype(k)>::tile_rows(k); }, p.heads[0]);
  }

  /// Room for the most demanding head.
  static index_capacity capacity(pattern const& p, attention_shape const& s) {
    index_capacity most;
    for (auto const& head : p.heads) {
      index_capacity const own = std::visit([&](auto const& k) { return traits<decltype(k)>::capacity(k, s); }, head);
      most = {max(most.spans, own.spans), max(most.shared_spans, own.shared_spans), max(most.columns, own.columns),
              most.members || own.members};
    }
    return most;
  }

  /// Kinds are built one after the other in the same memory.
  static std::size_t workspace_bytes(pattern const& p, attention_shape const& s) {
    std::size_t most = 0;
    for (auto const& head : p.heads)
      most = max(most, std::visit([&](auto const& k) { return traits<decltype(k)>::workspace_bytes(k, s); }, head));
    return most;
  }

  template <class Exec, class Inputs>
  static status build_all(pattern const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
    status s;
    static_cast<void>(((s = build_kind<Kinds>(p, exec, in, workspace, index)).ok() && ...));
    return s;
  }

 private:
  template <class Visited>
  using traits = pattern_traits<std::remove_cvref_t<Visited>>;

  template <class Kind, class Exec, class Inputs>
  static status build_kind(pattern const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
    head_set<Kind> set;
    auto const flush = [&] {
      return set.count ? pattern_traits<Kind>::build(exec, in, workspace, index, std::exchange(set, {})) : status{};
    };
    for (std::size_t h = 0; h < p.heads.size(); ++h) {
      auto const* const kind = std::get_if<Kind>(&p.heads[h]);
      if (!kind) continue;
      set.list[set.count] = static_cast<std::int16_t>(h), set.pattern[set.count++] = *kind;
      if (set.count < set.most) continue;
      if (status s = flush(); !s) return s;
    }
    return flush();
  }
};

}  // namespace lacuna
