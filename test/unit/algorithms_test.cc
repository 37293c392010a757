/*
 * The names of algorithms and protocols: the table has them, parameters accept them, whole or by size, and say which there are.
 */
#include <cstring>
#include "test/unit/unit.h"

extern "C" {
#include "core/plan/forced.h"
#include "core/plan/selector.h"
}

namespace
{
const gpucoll_config_row *parameter(const std::string &name)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        if (name == gpucoll_config_rows[i].name) {
            return &gpucoll_config_rows[i];
        }
    }
    ADD_FAILURE() << "no parameter " << name;
    return nullptr;
}

std::string values_of(const std::string &name)
{
    char text[GPUCOLL_FORCED_VALUES];
    const char *values = gpucoll_forced_values(parameter(name), text);
    return values == nullptr ? "" : values;
}
} // namespace

TEST(algorithms, of_every_collective_can_be_forced_by_a_parameter_of_its_own)
{
    for (int coll = 0; coll < GPUCOLL_COLL_COUNT; coll++) {
        const auto id = static_cast<gpucoll_coll>(coll);
        const std::string name = std::string(gpucoll_coll_name(id)) + "_algorithm";
        gpucoll_config config;
        gpucoll_config_init(&config);
        const gpucoll_algorithm *row;
        for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
            RecordingLog log;
            EXPECT_EQ(gpucoll_config_set(&config, name.c_str(), row->name), GPUCOLL_OK);
            EXPECT_EQ(gpucoll_config_set(&config, "protocol", row->protocol), GPUCOLL_OK);
            EXPECT_STREQ(config.algorithm[coll], row->name);
            bool known =
                ("|" + values_of(name) + "|").find(std::string("|") + row->name + "|") != std::string::npos;
            EXPECT_TRUE(known || !gpucoll_algorithm_runs(row, id)) << name << ": " << values_of(name);
            EXPECT_EQ(gpucoll_forced_check(&config, log.get()), known) << name << "=" << row->name;
            EXPECT_EQ(log.topics().size(), known ? 0u : 1u);
            EXPECT_STREQ(config.algorithm[coll], known ? row->name : "auto");
            EXPECT_STREQ(config.protocol, row->protocol);
        }
    }
}

TEST(algorithms, have_names_and_help)
{
    const gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
        EXPECT_GT(strlen(row->name), 0u);
        EXPECT_GT(strlen(row->help), 20u);
    }
    EXPECT_EQ(gpucoll_algorithm_row(-1), nullptr);
}

TEST(algorithms, are_what_parameters_accept)
{
    EXPECT_EQ(values_of("allreduce_algorithm").rfind("auto|oneshot|twoshot", 0), 0u)
        << values_of("allreduce_algorithm");
    EXPECT_EQ(values_of("protocol").rfind("auto|ll|ll128|simple", 0), 0u) << values_of("protocol");
    EXPECT_EQ(values_of("accelerator"), "auto|cuda|host|none");
    EXPECT_EQ(values_of("transports"), "");
}

TEST(algorithms, are_forced_by_size)
{
    const struct {
        const char *value;
        uint64_t bytes;
        const char *name;
    } cases[] = {
        {"auto", 5, "auto"},
        {"phased", 0, "phased"},
        {"oneshot:8K,twoshot", 0, "oneshot"},
        {"oneshot:8K,twoshot", 8192, "oneshot"},
        {"oneshot:8K,twoshot", 8193, "twoshot"},
        {"auto:8K,twoshot:1M", 10000, "twoshot"},
        {"auto:8K,twoshot:1M", 1 << 20, "twoshot"},
        {"auto:8K,twoshot:1M", 2 << 20, "auto"},
    };
    for (const auto &one : cases) {
        gpucoll_config config;
        gpucoll_config_init(&config);
        RecordingLog log;
        char name[GPUCOLL_FORCED_NAME];
        gpucoll_forced_name(one.value, one.bytes, name);
        EXPECT_STREQ(name, one.name) << one.value << " at " << one.bytes;
        ASSERT_EQ(gpucoll_config_set(&config, "allreduce_algorithm", one.value), GPUCOLL_OK);
        EXPECT_TRUE(gpucoll_forced_check(&config, log.get())) << one.value;
    }
    for (const char *value :
         {"", ",", "oneshot:", "oneshot:8K,", ":8K", "oneshot,twoshot", "oneshot:8K,twoshot:8K",
          "oneshot:8K,twoshot:4K", "oneshot:8Q", "oneshot:-1", "oneshot:0,twoshot", "oneshot:8K,pigeon",
          "oneshot:8K:9K,twoshot", "a_name_that_is_longer_than_any_of_the_table_will_ever_be:8K"}) {
        gpucoll_config config;
        gpucoll_config_init(&config);
        RecordingLog log;
        ASSERT_EQ(gpucoll_config_set(&config, "allreduce_algorithm", value), GPUCOLL_OK);
        EXPECT_FALSE(gpucoll_forced_check(&config, log.get())) << value;
        EXPECT_EQ(log.topics(), std::vector<std::string>{"bad-parameter"}) << value;
        EXPECT_NE(log.text_of("bad-parameter").find("NAME:SIZE"), std::string::npos);
        EXPECT_STREQ(config.algorithm[GPUCOLL_ALLREDUCE], "auto");
    }
}

TEST(algorithms, unknown_names_are_told_with_those_that_are_known)
{
    gpucoll_config config;
    gpucoll_config_init(&config);
    RecordingLog log;
    EXPECT_TRUE(gpucoll_forced_check(&config, log.get()));
    for (const char *name : {"allreduce_algorithm", "scan_algorithm", "protocol"}) {
        ASSERT_EQ(gpucoll_config_set(&config, name, "pigeon"), GPUCOLL_OK);
    }
    EXPECT_FALSE(gpucoll_forced_check(&config, log.get()));
    EXPECT_EQ(log.topics(), std::vector<std::string>(3, "bad-parameter"));
    std::string text = log.text_of("bad-parameter");
    for (const std::string &word :
         {std::string("coll_gpucoll_allreduce_algorithm"), std::string("coll_gpucoll_scan_algorithm"),
          std::string("pigeon"), values_of("allreduce_algorithm"), values_of("scan_algorithm"),
          values_of("protocol")}) {
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
    EXPECT_STREQ(config.algorithm[GPUCOLL_SCAN], "auto");
    EXPECT_STREQ(config.protocol, "auto");
}
