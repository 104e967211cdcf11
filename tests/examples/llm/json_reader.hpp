#pragma once

#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "unicode.hpp"

/// Just enough JSON to read test cases and what the example writes.
struct json_value {
  using object = std::map<std::string, json_value>;
  using array = std::vector<json_value>;
  std::variant<std::nullptr_t, bool, double, std::string, array, object> value;

  json_value const& operator[](std::string const& key) const { return std::get<object>(value).at(key); }
  array const& items() const { return std::get<array>(value); }
  std::string const& text() const { return std::get<std::string>(value); }
  double number() const { return std::get<double>(value); }
  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }

  template <class Number>
  std::vector<Number> numbers() const {
    std::vector<Number> result;
    for (auto const& item : items()) result.push_back(static_cast<Number>(item.number()));
    return result;
  }
};

class json_reader {
 public:
  static json_value read(std::string_view text) {
    json_reader reader(text);
    auto value = reader.read_value();
    reader.skip_blanks();
    if (reader.at_ != text.size()) throw std::runtime_error("JSON: text after the end");
    return value;
  }

 private:
  explicit json_reader(std::string_view text) : text_(text) {}

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool accept(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void expect(std::string_view word) {
    if (!accept(word)) throw std::runtime_error("JSON: expected " + std::string(word) + " at " + std::to_string(at_));
  }

  json_value read_value() {
    if (accept("{")) return read_object();
    if (accept("[")) return read_array();
    if (accept("\"")) return {read_string()};
    if (accept("null")) return {nullptr};
    if (accept("true")) return {true};
    if (accept("false")) return {false};
    double number = 0;
    auto const [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (code != std::errc{}) throw std::runtime_error("JSON: expected a value at " + std::to_string(at_));
    at_ = static_cast<std::size_t>(end - text_.data());
    return {number};
  }

  json_value read_object() {
    json_value::object members;
    if (accept("}")) return {members};
    do {
      expect("\"");
      auto key = read_string();
      expect(":");
      members.emplace(std::move(key), read_value());
    } while (accept(","));
    expect("}");
    return {members};
  }

  json_value read_array() {
    json_value::array items;
    if (accept("]")) return {items};
    do {
      items.push_back(read_value());
    } while (accept(","));
    expect("]");
    return {items};
  }

  std::uint32_t read_hex() {
    std::uint32_t value = 0;
    std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    at_ += 4;
    return value;
  }

  void append_escape(std::string& out) {
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    char const c = text_.at(at_++);
    if (c != 'u') {
      out += meanings.at(names.find(c));
      return;
    }
    std::uint32_t point = read_hex();
    if (point >= 0xD800 && point < 0xDC00) {
      at_ += 2;
      point = 0x10000 + ((point - 0xD800) << 10) + (read_hex() - 0xDC00);
    }
    llm::append_utf8(out, point);
  }

  std::string read_string() {
    std::string out;
    for (char c = text_.at(at_++); c != '"'; c = text_.at(at_++)) {
      if (c == '\\') {
        append_escape(out);
      } else {
        out += c;
      }
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};
