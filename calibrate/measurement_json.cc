// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measurement_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace stepcast {
namespace {

using nlohmann::json;

// Where the parser gives up, which not all of its exceptions say.
struct FailedPlace : nlohmann::json_sax<json> {
  size_t byte = 0;

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    byte = position == 0 ? 0 : position - 1;
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
};

[[noreturn]] void refuse(const MeasurementInput& in, const char* message) {
  FailedPlace failed;
  json::sax_parse(in.text, &failed);
  refuse_measurements(in, "E333", message, "", place_of(in.text, failed.byte));
}

}  // namespace

json parse_json(const MeasurementInput& in) {
  try {
    return json::parse(in.text);
  } catch (const json::out_of_range&) {
    refuse(in, "a number that is too large");
  } catch (const json::parse_error&) {
    refuse(in, "JSON that is broken or was cut off");
  }
}

}  // namespace stepcast
