/*
 * core/base: configuration rows, types and functors, log and help texts, status names.
 */
#include "test/unit/unit.h"
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <unistd.h>

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

static gpucoll_config defaults()
{
    gpucoll_config config;
    memset(&config, 0, sizeof config);
    gpucoll_config_init(&config);
    return config;
}

TEST(config, defaults_are_the_rows)
{
    gpucoll_config config = defaults();
    EXPECT_TRUE(config.enable);
    EXPECT_EQ(config.priority, 95);
    EXPECT_STREQ(config.accelerator, "auto");
    EXPECT_STREQ(config.host_memory, "device");
    EXPECT_EQ(config.max_ctas, 128);
    EXPECT_EQ(config.lanes, 4);
    EXPECT_EQ(config.scratch_bytes, 0u);
    EXPECT_EQ(config.timeout, 300);
    EXPECT_FALSE(config.sync_device);
}

TEST(config, rows_are_complete_and_distinct)
{
    std::set<std::string> names;
    std::set<size_t> offsets;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const gpucoll_config_row &row = gpucoll_config_rows[i];
        SCOPED_TRACE(row.name);
        EXPECT_TRUE(names.insert(row.name).second);
        EXPECT_TRUE(offsets.insert(row.offset).second);
        EXPECT_LT(row.offset, sizeof(gpucoll_config));
        EXPECT_GE(row.level, 1);
        EXPECT_LE(row.level, 9);
        std::string help = row.help;
        EXPECT_GT(help.size(), 20u);
        EXPECT_EQ(help.back(), '.');
        gpucoll_config config = defaults();
        EXPECT_EQ(gpucoll_config_set(&config, row.name, row.initial), GPUCOLL_OK);
    }
}

TEST(config, defaults_pass_the_check)
{
    RecordingLog log;
    gpucoll_config config = defaults();
    gpucoll_config_check(&config, log.get());
    EXPECT_TRUE(log.topics().empty());
}

/* What a text names of parameters by the ends of their names, such as _protocol. */
static std::set<std::string> named_in(const std::string &text)
{
    std::set<std::string> names;
    std::istringstream words(text);
    std::string word;
    while (words >> word) {
        if (word[0] == '_') {
            names.insert(word.substr(1, word.find_first_of(",.") - 1));
        }
    }
    return names;
}

/* The message on settings that differ names all that count, and nothing else. */
TEST(config, what_has_to_be_equal_is_hashed_and_named)
{
    RecordingLog log;
    gpucoll_help(log.get(), "settings-mismatch", "MPI_COMM_WORLD", 3u);
    const std::string text = log.text_of("settings-mismatch");
    EXPECT_NE(text.find("coll_gpucoll_<collective>_algorithm,"), std::string::npos);
    std::set<std::string> equal;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const gpucoll_config_row &row = gpucoll_config_rows[i];
        const std::string name = row.name;
        EXPECT_EQ(row.equal, std::string(row.help).find("equal on all ranks") != std::string::npos) << name;
        if (name.find("_algorithm") != std::string::npos && name != "rail_algorithm") {
            EXPECT_TRUE(row.equal) << name;
        } else if (row.equal) {
            equal.insert(name);
        }
        gpucoll_config config;
        gpucoll_config_init(&config);
        const uint64_t before = gpucoll_config_hash(&config);
        char *const field = reinterpret_cast<char *>(&config) + row.offset;
        char other[] = "other";
        switch (row.type) {
        case GPUCOLL_CONFIG_STRING:
            *reinterpret_cast<char **>(field) = other;
            break;
        default:
            *field ^= 1;
        }
        EXPECT_EQ(gpucoll_config_hash(&config) != before, row.equal) << name;
    }
    EXPECT_EQ(named_in(text), equal);
}

TEST(config, sizes_have_suffixes)
{
    const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"1048576", 1 << 20}, {"1M", 1 << 20}, {"1m", 1 << 20},
                 {"2048K", 2 << 20},   {"1G", 1 << 30}, {"0x100000", 1 << 20}};
    for (const auto &c : cases) {
        gpucoll_config config = defaults();
        EXPECT_EQ(gpucoll_config_set(&config, "scratch_bytes", c.text), GPUCOLL_OK) << c.text;
        EXPECT_EQ(config.scratch_bytes, c.bytes) << c.text;
    }
}

TEST(config, bad_text_is_refused_and_changes_nothing)
{
    const struct {
        const char *name;
        const char *text;
    } cases[] = {
        {"scratch_bytes", "5G"},       {"scratch_bytes", "4Q"},
        {"scratch_bytes", "16MM"},     {"scratch_bytes", "-16M"},
        {"scratch_bytes", ""},         {"scratch_bytes", "99999999999999999999"},
        {"scratch_bytes", "9000000T"}, {"max_ctas", "0"},
        {"max_ctas", "129"},           {"max_ctas", "8K"},
        {"max_ctas", "many"},          {"lanes", "65"},
        {"lanes", "4294967300"},       {"timeout", "-1"},
        {"enable", "maybe"},           {"accelerator", "gpu"},
        {"accelerator", ""},           {"accelerator", "cud"},
        {"accelerator", "cuda|host"},  {"host_memory", "pinned"},
        {"no_such_row", "1"},
    };
    for (const auto &c : cases) {
        gpucoll_config config = defaults();
        gpucoll_config before = config;
        EXPECT_EQ(gpucoll_config_set(&config, c.name, c.text), GPUCOLL_ERR_INVALID)
            << c.name << "=" << c.text;
        EXPECT_EQ(memcmp(&config, &before, sizeof config), 0) << c.name << "=" << c.text;
    }
}

TEST(config, booleans_have_words)
{
    for (const char *word : {"true", "1", "yes", "y", "t", "enabled"}) {
        gpucoll_config config = defaults();
        EXPECT_EQ(gpucoll_config_set(&config, "sync_device", word), GPUCOLL_OK);
        EXPECT_TRUE(config.sync_device) << word;
    }
    for (const char *word : {"false", "0", "no", "n", "f", "disabled"}) {
        gpucoll_config config = defaults();
        EXPECT_EQ(gpucoll_config_set(&config, "enable", word), GPUCOLL_OK);
        EXPECT_FALSE(config.enable) << word;
    }
    for (const char *word : {"off", "TRUE", "", "2"}) { /* nor does Open MPI take these, but for a number that is not 0 */
        gpucoll_config config = defaults();
        EXPECT_EQ(gpucoll_config_set(&config, "enable", word), GPUCOLL_ERR_INVALID) << word;
    }
}

TEST(config, bad_values_are_named_and_set_back)
{
    RecordingLog log;
    gpucoll_config config = defaults();
    config.max_ctas = 4096;
    config.scratch_bytes = SIZE_MAX;
    config.accelerator = const_cast<char *>("opencl");
    config.host_memory = nullptr; /* never set: nobody's mistake */
    gpucoll_config_check(&config, log.get());
    EXPECT_EQ(log.topics(), std::vector<std::string>(3, "bad-parameter"));
    std::string text = log.text_of("bad-parameter");
    for (const char *word :
         {"max_ctas", "4096", "1..128", "scratch_bytes", "accelerator", "opencl", "auto|cuda|host|none"}) {
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
    EXPECT_EQ(config.max_ctas, 128);
    EXPECT_EQ(config.scratch_bytes, 0u);
    EXPECT_STREQ(config.accelerator, "auto");
    EXPECT_STREQ(config.host_memory, "device");
}

TEST(types, sizes_are_those_of_c_and_divide_a_pack)
{
    struct short_int {
        short value;
        int location;
    };
    struct long_int {
        long value;
        int location;
    };
    struct double_int {
        double value;
        int location;
    };
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_INT8), 1u);
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_UINT64), 8u);
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_BFLOAT16), 2u);
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_COMPLEX128), 16u);
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_SHORT_INT), sizeof(short_int));
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_LONG_INT), sizeof(long_int));
    EXPECT_EQ(gpucoll_type_size(GPUCOLL_DOUBLE_INT), sizeof(double_int));
    std::set<std::string> names;
    for (int type = 0; type < GPUCOLL_TYPE_COUNT; type++) {
        size_t size = gpucoll_type_size(static_cast<gpucoll_type>(type));
        ASSERT_GT(size, 0u) << type;
        EXPECT_EQ(GPUCOLL_PACK_BYTES % size, 0u) << type;
        EXPECT_TRUE(names.insert(gpucoll_type_name(static_cast<gpucoll_type>(type))).second);
    }
}

/* The functor of each pair, by name; "-" where there is none. */
TEST(types, operators_and_types_meet_in_functors)
{
    const struct {
        gpucoll_op op;
        gpucoll_type type;
        const char *functor;
    } cases[] = {
        {GPUCOLL_SUM, GPUCOLL_INT32, "sum_u32"},
        {GPUCOLL_SUM, GPUCOLL_UINT32, "sum_u32"},
        {GPUCOLL_PROD, GPUCOLL_INT8, "prod_u8"},
        {GPUCOLL_MAX, GPUCOLL_INT64, "max_i64"},
        {GPUCOLL_MIN, GPUCOLL_UINT16, "min_u16"},
        {GPUCOLL_LAND, GPUCOLL_INT32, "land_u32"},
        {GPUCOLL_LXOR, GPUCOLL_UINT8, "lxor_u8"},
        {GPUCOLL_BAND, GPUCOLL_INT8, "band_u64"},
        {GPUCOLL_BXOR, GPUCOLL_UINT32, "bxor_u64"},
        {GPUCOLL_SUM, GPUCOLL_FLOAT16, "sum_f16"},
        {GPUCOLL_MAX, GPUCOLL_BFLOAT16, "max_bf16"},
        {GPUCOLL_PROD, GPUCOLL_COMPLEX64, "prod_c64"},
        {GPUCOLL_SUM, GPUCOLL_COMPLEX128, "sum_c128"},
        {GPUCOLL_MAXLOC, GPUCOLL_SHORT_INT, "maxloc_i16i32"},
        {GPUCOLL_MINLOC, GPUCOLL_LONG_INT, "minloc_i64i32"},
        {GPUCOLL_MINLOC, GPUCOLL_DOUBLE_DOUBLE, "minloc_f64f64"},
        {GPUCOLL_BAND, GPUCOLL_FLOAT32, "-"},
        {GPUCOLL_LAND, GPUCOLL_FLOAT64, "-"},
        {GPUCOLL_MAX, GPUCOLL_COMPLEX64, "-"},
        {GPUCOLL_SUM, GPUCOLL_INT_INT, "-"},
        {GPUCOLL_MAXLOC, GPUCOLL_INT32, "-"},
        {GPUCOLL_OP_COUNT, GPUCOLL_INT32, "-"},
        {GPUCOLL_SUM, GPUCOLL_TYPE_COUNT, "-"},
    };
    for (const auto &c : cases) {
        int functor = gpucoll_functor(c.op, c.type);
        EXPECT_STREQ(functor < 0 ? "-" : gpucoll_functor_name(functor), c.functor)
            << gpucoll_op_name(c.op) << " of " << gpucoll_type_name(c.type);
    }
}

TEST(types, what_large_messages_are_reduced_with_has_kernels_of_its_own)
{
    for (gpucoll_op op : {GPUCOLL_SUM, GPUCOLL_MAX, GPUCOLL_MIN}) {
        for (gpucoll_type type : {GPUCOLL_INT32, GPUCOLL_UINT64, GPUCOLL_FLOAT32, GPUCOLL_FLOAT64}) {
            EXPECT_FALSE(gpucoll_functor_is_rare(gpucoll_functor(op, type)))
                << gpucoll_op_name(op) << " of " << gpucoll_type_name(type);
        }
    }
    EXPECT_FALSE(gpucoll_functor_is_rare(gpucoll_functor(GPUCOLL_SUM, GPUCOLL_BFLOAT16)));
    EXPECT_TRUE(gpucoll_functor_is_rare(gpucoll_functor(GPUCOLL_PROD, GPUCOLL_FLOAT32)));
    EXPECT_TRUE(gpucoll_functor_is_rare(gpucoll_functor(GPUCOLL_MAXLOC, GPUCOLL_INT_INT)));
    EXPECT_FALSE(gpucoll_functor_is_rare(-1));
    EXPECT_FALSE(gpucoll_functor_is_rare(GPUCOLL_FUNCTOR_COUNT));
}

TEST(types, every_functor_is_used)
{
    std::set<int> used;
    for (const NativePair &pair : native_pairs()) {
        used.insert(pair.functor);
    }
    EXPECT_EQ(used.size(), static_cast<size_t>(GPUCOLL_FUNCTOR_COUNT));
}

TEST(number, does_not_depend_on_the_locale)
{
    char *end = nullptr;
    const std::string before = setlocale(LC_NUMERIC, nullptr);
    for (const char *name : {"C", "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
        if (setlocale(LC_NUMERIC, name) != nullptr) { /* not every machine has them */
            EXPECT_DOUBLE_EQ(gpucoll_strtod("2.5e1 us", &end), 25) << name;
            EXPECT_STREQ(end, " us") << name;
        }
    }
    setlocale(LC_NUMERIC, before.c_str());
    EXPECT_DOUBLE_EQ(gpucoll_strtod("us", &end), 0);
    EXPECT_STREQ(end, "us");
}

TEST(status, every_status_has_a_name)
{
    std::set<std::string> names;
    for (int status = GPUCOLL_ERR_EXCHANGE; status <= GPUCOLL_DECLINED; status++) {
        EXPECT_TRUE(names.insert(gpucoll_status_name(static_cast<gpucoll_status>(status))).second);
    }
    EXPECT_STREQ(gpucoll_status_name(static_cast<gpucoll_status>(77)), "unknown status");
}

TEST(log, lines_above_the_verbosity_are_dropped)
{
    RecordingLog log(GPUCOLL_LOG_SETUP);
    gpucoll_log(log.get(), GPUCOLL_LOG_SETUP, "%d ranks", 4);
    gpucoll_log(log.get(), GPUCOLL_LOG_PLAN, "%d plans", 5);
    EXPECT_EQ(log.lines(), std::vector<std::string>{"4 ranks"});
}

TEST(log, slower_paths_are_not_said_by_who_drops_warnings)
{
    for (int verbosity : {GPUCOLL_LOG_WARN - 1, static_cast<int>(GPUCOLL_LOG_WARN)}) {
        RecordingLog log(verbosity);
        gpucoll_help_slow(log.get(), "no-peer-access", "MPI_COMM_WORLD");
        gpucoll_help(log.get(), "settings-mismatch", "MPI_COMM_WORLD", 3u);
        EXPECT_EQ(log.topics().size(), verbosity < GPUCOLL_LOG_WARN ? 1u : 2u);
    }
}

TEST(log, long_lines_are_cut)
{
    RecordingLog log;
    std::string text(10000, 'x');
    gpucoll_log(log.get(), 0, "%s", text.c_str());
    ASSERT_EQ(log.lines().size(), 1u);
    EXPECT_EQ(log.lines()[0], text.substr(0, log.lines()[0].size()));
}

class help_on_stderr : public testing::Test
{
  protected:
    void SetUp() override
    {
        path = testing::TempDir() + "gpucoll-help-" + std::to_string(getpid()) + ".txt";
        std::ofstream(path) << "# a comment\n[first]\nnot this\n#\n[wanted]\nrank %d of %s\n# "
                               "hidden\n100%%\n#\n[last]\nnor this\n";
        gpucoll_log_stderr(&log, 0, path.c_str());
    }
    void TearDown() override { remove(path.c_str()); }

    std::string path;
    struct gpucoll_log log;
};

TEST_F(help_on_stderr, topic_is_found_and_filled_in)
{
    CaptureStderr();
    gpucoll_help(&log, "wanted", 3, "world");
    std::string text = GetCapturedStderr();
    EXPECT_NE(text.find("\nrank 3 of world\n100%\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("this"), std::string::npos) << text;
    EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
}

TEST_F(help_on_stderr, missing_topic_or_file_is_said)
{
    CaptureStderr();
    gpucoll_help(&log, "absent");
    gpucoll_help(&log, "want");
    std::string text = GetCapturedStderr();
    EXPECT_NE(text.find("\"absent\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"want\""), std::string::npos) << text;

    gpucoll_log_stderr(&log, 0, "/nonexistent/help.txt");
    CaptureStderr();
    gpucoll_help(&log, "wanted", 1, "x");
    text = GetCapturedStderr();
    EXPECT_NE(text.find("/nonexistent/help.txt"), std::string::npos) << text;
}

TEST_F(help_on_stderr, lines_carry_the_name)
{
    CaptureStderr();
    gpucoll_log(&log, GPUCOLL_LOG_WARN, "slow path for %s", "x");
    EXPECT_EQ(GetCapturedStderr(), "gpucoll: slow path for x\n");
}
