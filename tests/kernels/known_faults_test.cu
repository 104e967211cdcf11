#include "support/device.cuh"
#include "support/known_faults.hpp"

namespace {

using test::device_stream;

TEST_CASE("fault 1: rows without a visible key give 0 and -inf") { known_faults::fully_masked_rows(device_stream{}.exec()); }
TEST_CASE("fault 2: empty sequences are written and leave the others alone") { known_faults::empty_sequences(device_stream{}.exec()); }
TEST_CASE_TEMPLATE("fault 3: a logit of -65536 is as good as any", T, float, lacuna::bfloat16) {
  known_faults::extreme_logits<T>(device_stream{}.exec());
}
TEST_CASE("fault 4: ties go to the lower index on every launch") { known_faults::top_k_ties(device_stream{}.exec()); }
TEST_CASE("fault 5: budgets larger than the row keep the row") { known_faults::more_asked_than_there(device_stream{}.exec()); }
TEST_CASE("fault 7: groups of 6, 7 and 5, and groups that do not divide") { known_faults::odd_groups(device_stream{}.exec()); }
TEST_CASE("fault 9: tails are neither lost nor padded") {
  device_stream const stream;
  known_faults::tails(stream.exec(), lacuna::dense{});
  known_faults::tails(stream.exec(), lacuna::a_shape{64, 300});
  known_faults::tails(stream.exec(), lacuna::block_sparse{100});
}
TEST_CASE("fault 10: each row reads its own list") { known_faults::lists_of_every_row(device_stream{}.exec()); }
TEST_CASE("fault 13: views of one projection equal compact copies") { known_faults::fused_projection(device_stream{}.exec()); }
TEST_CASE("fault 17: selection is exact with more candidates than any buffer") { known_faults::many_candidates(device_stream{}.exec()); }
TEST_CASE("fault 19: unsorted and repeated sets equal sorted unique ones") { known_faults::unsorted_repeated_sets(device_stream{}.exec()); }

}  // namespace
