#pragma once
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lacuna {

/// Thrown by set-up calls. The message names the argument, what was expected and what came.
struct invalid_argument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Thrown by set-up calls that the CUDA runtime refused.
struct cuda_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class errc { ok, invalid_argument, cuda };

/// What a run returns: ok, or why nothing was written. Costs no allocation when ok.
class [[nodiscard]] status {
 public:
  status() = default;
  status(errc code, std::string message) : code_{code}, message_{std::move(message)} {}

  bool ok() const { return code_ == errc::ok; }
  explicit operator bool() const { return ok(); }
  errc code() const { return code_; }
  std::string const& message() const { return message_; }

  /// For callers that prefer exceptions: throws what a set-up call would have thrown.
  void or_throw() const {
    if (code_ == errc::invalid_argument) throw invalid_argument{message_};
    if (code_ == errc::cuda) throw cuda_error{message_};
  }

 private:
  errc code_ = errc::ok;
  std::string message_;
};

namespace detail {

inline std::string text(std::string_view piece) { return std::string{piece}; }
template <std::integral T>
std::string text(T number) {
  return std::to_string(number);
}
inline std::string text(double number) { return std::to_string(number); }

template <class... Pieces>
std::string concat(Pieces const&... pieces) {
  return (std::string{} + ... + text(pieces));
}

}  // namespace detail

/// Throws invalid_argument with the pieces joined unless `condition` holds.
template <class... Pieces>
void require(bool condition, Pieces const&... pieces) {
  if (!condition) throw invalid_argument{detail::concat(pieces...)};
}

template <class... Pieces>
status refuse(Pieces const&... pieces) {
  return {errc::invalid_argument, detail::concat(pieces...)};
}

}  // namespace lacuna
