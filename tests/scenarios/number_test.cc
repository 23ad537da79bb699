// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::number_test {
namespace {

using ::testing::HasSubstr;

Value scalar(std::string text, bool quoted = false) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.text = std::move(text);
  v.quoted = quoted;
  v.mark = {0, 1, 1};
  return v;
}

// The reading, or the code and help of what is wrong.
template <class Read>
auto read(Read&& reader, const Value& value, std::string* complaint = nullptr) {
  Problems problems;
  auto result = reader(value, "x", problems);
  EXPECT_EQ(result.has_value(), !problems.any()) << value.text;
  const testing::Failure f = testing::failure_of([&] { problems.throw_if_any(); });
  if (complaint != nullptr)
    *complaint =
        f.all.empty() ? "" : f.all[0].code + ' ' + f.all[0].message + " | " + f.all[0].help;
  return result;
}

#define READER(function) \
  [](const Value& v, std::string_view n, Problems& p) { return function(v, n, p); }

template <class Read>
std::string complaint(Read&& reader, const std::string& text, bool quoted = false) {
  std::string said;
  read(reader, scalar(text, quoted), &said);
  return said;
}

const auto kWhole = [](const Value& v, std::string_view n, Problems& p) {
  return read_whole(v, n, p, 1, 1'000'000);
};
const auto kTime = READER(read_time);
const auto kBytes = READER(read_bytes);
const auto kBandwidth = READER(read_bandwidth);

TEST(Number, PricesHaveTheirUnitOrASign) {
  const auto price = [](const Value& v, std::string_view, Problems& p) { return read_price(v, p); };
  EXPECT_EQ(read(price, scalar("2.5USD/GPUh")), 2.5);
  EXPECT_EQ(read(price, scalar("$2.5/GPUh")), 2.5);
  for (const char* wrong : {"2.5", "$2.5", "$2.5USD/GPUh", "2.5/GPUh", "$/GPUh", "-2USD/GPUh"})
    EXPECT_THAT(complaint(price, wrong), HasSubstr("E120")) << wrong;
}

TEST(Number, WholeNumbersAreDecimal) {
  EXPECT_EQ(read(kWhole, scalar("1")), 1);
  EXPECT_EQ(read(kWhole, scalar("+7")), 7);
  EXPECT_EQ(read(kWhole, scalar("1000000")), 1'000'000);
  EXPECT_EQ(read(kWhole, scalar("1e3")), 1000);
  EXPECT_EQ(read(kWhole, scalar("2.0")), 2);
}

TEST(Number, OtherFormsAreRefusedWithTheirReading) {
  EXPECT_EQ(complaint(kWhole, "010"),
            "E124 'x' must be a plain decimal number, not 010 | 010 is octal 8 to YAML 1.1; write "
            "10 or 8");
  EXPECT_EQ(complaint(kWhole, "0x10"),
            "E124 'x' must be a plain decimal number, not 0x10 | 0x10 is hexadecimal; write 16");
  EXPECT_EQ(complaint(kWhole, "0o17"),
            "E124 'x' must be a plain decimal number, not 0o17 | 0o17 is octal; write 15");
  EXPECT_THAT(complaint(kWhole, "1:30"), HasSubstr("E124"));
  EXPECT_THAT(complaint(kWhole, "1_000"), HasSubstr("E124"));
  EXPECT_THAT(complaint(kWhole, "089"), HasSubstr("write 89"));
  for (const char* text : {"yes", "true", "x", "", ".5", "5.", "1.", "- 1", "--1", "1 2", "١"})
    EXPECT_THAT(complaint(kWhole, text), HasSubstr("E107")) << text;
}

TEST(Number, NaNAndInfinityAreNotFinite) {
  for (const char* text : {".nan", ".NaN", "nan"})
    EXPECT_EQ(complaint(kWhole, text), "E121 'x' must be a finite number above 0, not NaN | ");
  for (const char* text : {".inf", "-.inf", "+.Inf", "Infinity"})
    EXPECT_EQ(complaint(kWhole, text), "E121 'x' must be a finite number above 0, not infinity | ");
}

TEST(Number, SignAndRangeAreChecked) {
  EXPECT_EQ(complaint(kWhole, "-1"), "E122 'x' must not be negative | ");
  EXPECT_EQ(complaint(kWhole, "0"), "E121 'x' must be above 0, not 0 | ");
  EXPECT_THAT(complaint(kWhole, "1000001"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kWhole, "1.5"), HasSubstr("E123 'x' must be a whole number"));
  EXPECT_THAT(complaint(kWhole, "9999999999999999999999"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kWhole, "1e400"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kWhole, "1e999999999999"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kWhole, "1e-400"), HasSubstr("E123"));
  EXPECT_THAT(complaint(READER(read_number), "1e400"), HasSubstr("E123"));
  const auto any = READER(read_whole);
  EXPECT_EQ(read(any, scalar("9223372036854775807")).has_value(), false);  // 19 digits: not exact
  EXPECT_EQ(read(any, scalar("999999999999999999")), 999'999'999'999'999'999);
}

TEST(Number, QuotesMakeTextButAQuantityMayBeQuoted) {
  EXPECT_THAT(complaint(kWhole, "8", true), HasSubstr("not the text \"8\""));
  EXPECT_EQ(read(kBytes, scalar("80GiB", true))->value, int64_t{80} << 30);
}

TEST(Number, BytesStateTheirUnit) {
  EXPECT_EQ(read(kBytes, scalar("80GiB"))->value, int64_t{80} << 30);
  EXPECT_EQ(read(kBytes, scalar("80GB"))->value, 80'000'000'000);
  EXPECT_EQ(read(kBytes, scalar("80 GB"))->value, 80'000'000'000);
  EXPECT_EQ(read(kBytes, scalar("512B"))->value, 512);
  EXPECT_EQ(read(kBytes, scalar("1.5kB"))->value, 1500);
  EXPECT_EQ(read(kBytes, scalar("79.15GiB"))->value, 84'986'665'370);  // ...369.6 rounded
  EXPECT_EQ(read(kBytes, scalar("0.5KiB"))->value, 512);
  EXPECT_EQ(complaint(kBytes, "80"),
            "E120 'x' needs a unit | write 80GB or 80GiB; 1 GiB is 1.074 GB");
  EXPECT_THAT(complaint(kBytes, "80Gb"), HasSubstr("E120 'x' cannot be in 'Gb'"));
  EXPECT_THAT(complaint(kBytes, "80gib"), HasSubstr("E120"));
  EXPECT_THAT(complaint(kBytes, "9000000PiB"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kBytes, "0.1B"), HasSubstr("E121"));
}

TEST(Number, BitsAndBytesAreTheSameRate) {
  EXPECT_EQ(read(kBandwidth, scalar("400Gb/s"))->value, 50e9);
  for (const auto& [bits, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"400Gb/s", "50GB/s"}, {"0.8Gb/s", "0.1GB/s"}, {"8Tb/s", "1000GB/s"}, {"8b/s", "1B/s"}})
    EXPECT_EQ(read(kBandwidth, scalar(bits))->value, read(kBandwidth, scalar(bytes))->value);
  EXPECT_EQ(read(kBandwidth, scalar("1GiB/s"))->value, 1073741824.0);
  EXPECT_EQ(complaint(kBandwidth, "400"),
            "E120 'x' needs a unit | write 400Gb/s (bits) or 400GB/s (bytes); they differ by 8");
  EXPECT_EQ(complaint(kBandwidth, "400Gbps"),
            "E120 'x' cannot be in 'Gbps' | write 400Gb/s (bits) or 400GB/s (bytes); they differ "
            "by 8");
  EXPECT_THAT(complaint(kBandwidth, "50GB"), HasSubstr("E120"));
  EXPECT_THAT(complaint(kBandwidth, "0GB/s"), HasSubstr("E121"));
  EXPECT_THAT(complaint(kBandwidth, "1e400GB/s"), HasSubstr("E123"));
}

TEST(Number, TimesAreExactPicoseconds) {
  EXPECT_EQ(read(kTime, scalar("2.5us"))->count(), 2'500'000);
  EXPECT_EQ(read(kTime, scalar("13.75s"))->count(), 13'750'000'000'000);
  EXPECT_EQ(read(kTime, scalar("1ps"))->count(), 1);
  EXPECT_EQ(read(kTime, scalar("0.5ps"))->count(), 1);  // half up
  EXPECT_EQ(read(kTime, scalar("0.4ps"))->count(), 0);
  EXPECT_EQ(read(kTime, scalar("2min"))->count(), 120'000'000'000'000);
  EXPECT_EQ(read(kTime, scalar("3.1h"))->count(), 11'160'000'000'000'000);
  EXPECT_EQ(read(kTime, scalar("106d"))->count(), 9'158'400'000'000'000'000);
  EXPECT_EQ(read(kTime, scalar("0.1us"))->count(), 100'000);
  EXPECT_THAT(complaint(kTime, "107d"), HasSubstr("E123"));
  EXPECT_THAT(complaint(kTime, "2"), HasSubstr("E120 'x' needs a unit | write 2us or 2s"));
  EXPECT_THAT(complaint(kTime, "2 years"),
              HasSubstr("E120 'x' cannot be in 'years' | write 2us or 2s"));
  EXPECT_EQ(complaint(kTime, "14days"),
            "E120 'x' cannot be in 'days' | write 14d; units of time are ps, ns, us, ms, s, min, h "
            "and d");
  EXPECT_THAT(complaint(kTime, "1 hour"), HasSubstr("write 1h; "));
  EXPECT_THAT(complaint(kTime, "1.5 minutes"), HasSubstr("write 1.5min; "));
  EXPECT_EQ(complaint(kTime, "-1us"), "E122 'x' must not be negative | ");
}

TEST(Number, FlopRates) {
  EXPECT_EQ(read(READER(read_flop_rate), scalar("989.4TFLOP/s"))->value, 989.4e12);
  EXPECT_EQ(read(READER(read_flop_rate), scalar("1.979 PFLOPS"))->value, 1979e12);
  EXPECT_THAT(complaint(READER(read_flop_rate), "989"), HasSubstr("write 989TFLOP/s"));
  EXPECT_THAT(complaint(READER(read_flop_rate), "989TiFLOP/s"), HasSubstr("E120"));
}

TEST(Number, PowerIsInWatts) {
  EXPECT_EQ(read(READER(read_power), scalar("700W"))->value, 700);
  EXPECT_EQ(read(READER(read_power), scalar("1.4 kW"))->value, 1400);
  EXPECT_THAT(complaint(READER(read_power), "700"), HasSubstr("write 700W"));
  EXPECT_THAT(complaint(READER(read_power), "700V"), HasSubstr("E120"));
  EXPECT_THAT(complaint(READER(read_power), "0W"), HasSubstr("E121"));
}

TEST(Number, SharesArePercentOrFraction) {
  EXPECT_EQ(read(READER(read_share), scalar("5%")), 0.05);
  EXPECT_EQ(read(READER(read_share), scalar("0.05")), 0.05);
  EXPECT_EQ(read(READER(read_share), scalar("0")), 0.0);
  EXPECT_EQ(read(READER(read_share), scalar("100%")), 1.0);
  EXPECT_THAT(complaint(READER(read_share), "5"), HasSubstr("E123"));
  EXPECT_THAT(complaint(READER(read_share), "101%"), HasSubstr("E123"));
  EXPECT_THAT(complaint(READER(read_share), "5 percent"), HasSubstr("E120"));
  EXPECT_THAT(complaint(READER(read_share), "-5%"), HasSubstr("E122"));
}

TEST(Number, TokensMayBeThousands) {
  EXPECT_EQ(read(READER(read_tokens), scalar("15.6T")), 15'600'000'000'000);
  EXPECT_EQ(read(READER(read_tokens), scalar("4M")), 4'000'000);
  EXPECT_EQ(read(READER(read_tokens), scalar("2048")), 2048);
  EXPECT_THAT(complaint(READER(read_tokens), "0.5"), HasSubstr("E123"));
  EXPECT_THAT(complaint(READER(read_tokens), "4m"), HasSubstr("E120"));
  EXPECT_THAT(complaint(READER(read_tokens), "99999999T"), HasSubstr("E123"));
}

TEST(Number, FlagsAreTrueOrFalse) {
  EXPECT_EQ(read(READER(read_flag), scalar("true")), true);
  EXPECT_EQ(read(READER(read_flag), scalar("false")), false);
  EXPECT_EQ(complaint(READER(read_flag), "yes"),
            "E107 'x' must be true or false, not 'yes' | write true");
  EXPECT_EQ(complaint(READER(read_flag), "off"),
            "E107 'x' must be true or false, not 'off' | write false");
  EXPECT_THAT(complaint(READER(read_flag), "true", true), HasSubstr("E107"));
}

TEST(Number, CollectionsAreNoNumbers) {
  Value list;
  list.kind = Value::Kind::sequence;
  std::string said;
  read(kWhole, list, &said);
  EXPECT_EQ(said,
            "E107 'x' must be one number, not a list | several values are the cases of `compare`");
  read(READER(read_text), list, &said);
  EXPECT_EQ(said, "E107 'x' must be text | ");
}

TEST(Number, LongTextIsCutInMessages) {
  EXPECT_LT(complaint(kWhole, std::string(100'000, 'a')).size(), 200u);
  EXPECT_LT(complaint(kBytes, std::string(100'000, '7')).size(), 200u);
}

}  // namespace
}  // namespace stepcast::number_test
