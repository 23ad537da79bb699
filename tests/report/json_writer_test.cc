// SPDX-License-Identifier: Apache-2.0
#include "report/json/writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace stepcast::json_writer_test {
namespace {

using nlohmann::json;

TEST(JsonString, ReadsBackAsItWas) {
  for (const std::string text :
       {"plain", "a\"b\\c", "line\nbreak\ttab\x01", "<script>alert(1)</script>",
        "abc\xe2\x80\xae"
        "def",
        "\xf0\x9f\x9a\x80 rocket", "\xf3\xa0\x80\x81", "\x7f"}) {
    EXPECT_EQ(json::parse(json_string(text)).get<std::string>(), text) << json_string(text);
  }
}

TEST(JsonString, HidesNothingAndOpensNoTag) {
  EXPECT_EQ(json_string("<b>"), "\"\\u003cb>\"");
  EXPECT_EQ(json_string("\xe2\x80\xae"), "\"\\u202e\"");
  EXPECT_EQ(json_string("\xf3\xa0\x80\x81"), "\"\\udb40\\udc01\"");
}

TEST(JsonString, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(json_string("\xff"), "\"\\ufffd\"");
}

TEST(JsonWriter, KeepsTheOrderOfKeys) {
  JsonWriter w(0);
  w.begin_object();
  w.member("z", 1);
  w.key("a");
  w.begin_array();
  w.value(true);
  w.null();
  w.begin_object();
  w.end_object();
  w.begin_array();
  w.end_array();
  w.end_array();
  w.member("m", "text");
  w.end_object();
  EXPECT_EQ(w.text(), R"({"z":1,"a":[true,null,{},[]],"m":"text"})");
}

TEST(JsonWriter, WritesListsAndWhatIsNotThere) {
  JsonWriter w(0);
  w.begin_object();
  w.values("texts", std::vector<std::string>{"a", "b"});
  w.values("none", std::vector<int64_t>{});
  w.objects("items", std::vector<int>{1, 2}, [&](int n) { w.member("n", n); });
  w.member("there", std::optional<int>(3));
  w.member("not there", std::optional<double>());
  w.end_object();
  EXPECT_EQ(
      w.text(),
      R"({"texts":["a","b"],"none":[],"items":[{"n":1},{"n":2}],"there":3,"not there":null})");
}

TEST(JsonDocument, IsOneObjectAndALine) {
  EXPECT_EQ(json_document([](JsonWriter& w) { w.member("a", 1); }), "{\n  \"a\": 1\n}\n");
}

TEST(JsonWriter, IndentsIfAsked) {
  JsonWriter w(2);
  w.begin_object();
  w.member("a", 1);
  w.key("b");
  w.begin_array();
  w.end_array();
  w.end_object();
  EXPECT_EQ(w.text(), "{\n  \"a\": 1,\n  \"b\": []\n}");
}

TEST(JsonWriter, HasNoNumbersThatJsonHasNot) {
  JsonWriter w(0);
  w.begin_array();
  w.value(std::numeric_limits<double>::infinity());
  w.value(-std::numeric_limits<double>::infinity());
  w.value(std::numeric_limits<double>::quiet_NaN());
  w.end_array();
  EXPECT_EQ(w.text(), "[null,null,null]");
}

TEST(JsonWriter, DoublesReadBackExactly) {
  for (const double v : {0.1, 1e300, 5e-324, 123456789.125, -0.3333333333333333}) {
    JsonWriter w(0);
    w.value(v);
    EXPECT_EQ(json::parse(w.text()).get<double>(), v) << w.text();
  }
}

TEST(JsonWriter, SecondsAreExactToThePicosecond) {
  JsonWriter w(0);
  w.begin_array();
  w.seconds(Time{13'620'000'000'001});
  w.seconds(Time{-7});
  w.seconds(Time{0});
  w.seconds(Time{2'000'000'000'000});
  w.end_array();
  EXPECT_EQ(w.text(), "[13.620000000001,-0.000000000007,0.0,2.0]");
}

}  // namespace
}  // namespace stepcast::json_writer_test
