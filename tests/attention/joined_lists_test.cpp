// What patterns with a list a token build, and what union_lists makes of it.
#include "support/attention_on.hpp"
#include "support/scattered_blocks.hpp"

#include <doctest/doctest.h>
#include <lacuna/kernels/union_lists.hpp>

namespace {

using lacuna::attention_shape;

/// Every token reads the same keys through the joined lists of `members` neighbours.
template <class Pattern>
void joining_changes_nothing(test::call_data<float> data, int members, bool causal) {
  data.shape.key_dim = data.shape.value_dim = 8;
  data.randomize(1);
  lacuna::host_executor const exec{1};
  lacuna::sparse_attention<test::config_of<float, 8, Pattern>> const attention{Pattern{}, {.causal = causal}};
  test::call_on call{exec, attention, data};
  lacuna::workspace const scratch{exec, call.plan().workspace_bytes()};
  attention.build(exec, call.plan(), scratch, call.io(), call.kv()).or_throw();
  auto const& shape = call.plan().shape();
  auto const& lengths = call.io().lengths;
  auto layout = call.plan().layout();
  REQUIRE(lacuna::union_lists::takes(layout, members));
  layout.capacity = lacuna::union_lists::joined_capacity(layout, members, shape.keys), layout.tile_rows *= members;
  std::vector<std::byte> memory(lacuna::index_bytes(layout), std::byte{0x5a});
  lacuna::union_lists const join{shape, lengths, call.plan().index(scratch.data()), lacuna::make_index(layout, memory.data())};
  exec.launch({join.blocks(), lacuna::union_lists::team_size}, join).or_throw();
  CHECK(test::lists_of(join.to, shape, lengths) == test::lists_of(join.from, shape, lengths));
}

TEST_CASE("every token reads through joined lists what its own list names") {
  for (attention_shape const& shape : {attention_shape{1, 1, 1, 16, 1},
                                       {1, 63, 63, 16, 1},
                                       {2, 65, 130, 32, 2},
                                       {1, 40, 700, 9, 3},
                                       {2, 100, 64, 5, 1},
                                       {1, 131, 3000, 8, 1}})
    for (bool const causal : {true, false}) {
      CAPTURE(shape.queries);
      CAPTURE(causal);
      joining_changes_nothing<test::scattered_blocks<1, 8>>({.shape = shape}, 8, causal);
      joining_changes_nothing<test::scattered_blocks<1, 64>>({.shape = shape}, 18, causal);
      joining_changes_nothing<test::scattered_blocks<1, 16>>({.shape = shape}, 64, causal);
    }
}

TEST_CASE("tokens of ragged and packed batches read through joined lists what their own lists name") {
  using pattern = test::scattered_blocks<1, 16>;
  joining_changes_nothing<pattern>({.shape = {4, 70, 90, 16, 2}, .query_lengths = {70, 0, 3, 64}, .key_lengths = {80, 40, 1000, -5}}, 8,
                                   true);
  joining_changes_nothing<pattern>({.shape = {3, 100, 100, 16, 2}, .query_offsets = {0, 5, 5, 105}, .key_offsets = {0, 90, 91, 191}}, 8,
                                   true);
}

}  // namespace
