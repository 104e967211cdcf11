#pragma once
#include <lacuna/core/macros.hpp>

#include <type_traits>
#include <utility>

namespace lacuna {

namespace detail {

template <int I, class Stage>
struct stage_slot {
  Stage value;
  friend bool operator==(stage_slot const&, stage_slot const&) = default;
};

template <class Numbers, class... Stages>
struct stage_slots;

template <int... I, class... Stages>
struct stage_slots<std::integer_sequence<int, I...>, Stages...> : stage_slot<I, Stages>... {
  stage_slots() = default;
  LACUNA_HD constexpr stage_slots(Stages const&... stages) : stage_slot<I, Stages>{stages}... {}
  friend bool operator==(stage_slots const&, stage_slots const&) = default;
};

template <int I, class Stage>
LACUNA_HD constexpr Stage& stage_of(stage_slot<I, Stage>& slot) {
  return slot.value;
}
template <int I, class Stage>
LACUNA_HD constexpr Stage const& stage_of(stage_slot<I, Stage> const& slot) {
  return slot.value;
}

}  // namespace detail

/// Stages of different types in a row, `{first, second, third}`: trivially copyable, so that kernels can take them.
template <class... Stages>
struct stage_list : detail::stage_slots<std::make_integer_sequence<int, static_cast<int>(sizeof...(Stages))>, Stages...> {
  using detail::stage_slots<std::make_integer_sequence<int, static_cast<int>(sizeof...(Stages))>, Stages...>::stage_slots;
  static constexpr int size = sizeof...(Stages);

  template <int I>
  LACUNA_HD constexpr auto& get() {
    return detail::stage_of<I>(*this);
  }
  template <int I>
  LACUNA_HD constexpr auto const& get() const {
    return detail::stage_of<I>(*this);
  }

  friend bool operator==(stage_list const&, stage_list const&) = default;
};

template <class... Stages>
stage_list(Stages...) -> stage_list<Stages...>;

/// Calls visit(std::integral_constant<int, I>) for every stage, in order.
template <class... Stages, class Visit>
constexpr void for_each_stage(stage_list<Stages...> const&, Visit const& visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (visit(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, static_cast<int>(sizeof...(Stages))>{});
}

}  // namespace lacuna
