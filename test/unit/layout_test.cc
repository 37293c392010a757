/*
 * Layouts: what is built from a type map finds every byte where a list of all bytes has it, whatever was joined, turned into
 * dimensions or left as a list.
 */
#include <functional>
#include "test/unit/unit.h"

extern "C" {
#include "core/layout.h"
}

namespace
{
/* A type map at random, told to a builder and kept as the offsets of its bytes. */
class Map
{
  public:
    explicit Map(uint64_t seed) : random(seed), builder(gpucoll_layout_begin())
    {
        bytes = sequence(3, 0);
        extent = static_cast<ptrdiff_t>(random.below(4) == 0 ? unit * random.below(64)
                                                             : unit * (1 + random.below(4096)));
        extent = random.below(8) == 0 ? -extent : extent;
        layout = gpucoll_layout_build(builder, extent);
    }
    ~Map() { gpucoll_layout_release(layout); }

    ptrdiff_t offset(uint64_t position) const
    {
        return bytes[position % bytes.size()] + static_cast<ptrdiff_t>(position / bytes.size()) * extent;
    }

    std::vector<ptrdiff_t> bytes;
    ptrdiff_t extent;
    gpucoll_layout *layout;

  private:
    std::vector<ptrdiff_t> sequence(int depth, ptrdiff_t at)
    {
        std::vector<ptrdiff_t> all;
        const uint32_t items = 1 + random.below(3);
        for (uint32_t i = 0; i < items; i++) {
            const std::vector<ptrdiff_t> more = depth > 0 && random.below(3) > 0 ? again(depth, at) : run(at);
            all.insert(all.end(), more.begin(), more.end());
            at = random.below(3) == 0 && !all.empty() ? all.back() + 1 : at + distance(512);
        }
        return all;
    }

    /* A loop, and now and then the same one elsewhere: equally far apart, or by chance behind its end. */
    std::vector<ptrdiff_t> again(int depth, ptrdiff_t at)
    {
        const uint32_t times = random.below(3) == 0 ? 2 + random.below(2) : 1;
        const ptrdiff_t apart = distance(2048);
        const Random before = random;
        std::vector<ptrdiff_t> all;
        for (uint32_t i = 0; i < times; i++) {
            random = before;
            const std::vector<ptrdiff_t> more = loop(depth, at + static_cast<ptrdiff_t>(i) * apart);
            all.insert(all.end(), more.begin(), more.end());
        }
        return all;
    }

    std::vector<ptrdiff_t> run(ptrdiff_t at)
    {
        const uint32_t length = unit * random.below(6);
        gpucoll_layout_add_run(builder, at, length);
        std::vector<ptrdiff_t> all;
        for (uint32_t i = 0; i < length; i++) {
            all.push_back(at + i);
        }
        return all;
    }

    std::vector<ptrdiff_t> loop(int depth, ptrdiff_t at)
    {
        const uint32_t count = random.below(5);
        ptrdiff_t stride = distance(256);
        gpucoll_layout_add_loop(builder, count, stride);
        const std::vector<ptrdiff_t> body = sequence(depth - 1, at);
        gpucoll_layout_end_loop(builder);
        std::vector<ptrdiff_t> all;
        for (uint32_t i = 0; i < count; i++) {
            for (ptrdiff_t byte : body) {
                all.push_back(byte + i * stride);
            }
        }
        return all;
    }

    /* Often as far as a run is long, so that runs touch. */
    ptrdiff_t distance(uint32_t most)
    {
        const ptrdiff_t far =
            random.below(2) == 0 ? unit * random.below(6) : unit * random.below(most / unit);
        return random.below(4) == 0 ? -far : far;
    }

    Random random;
    const uint32_t unit = 1u << random.below(5);
    gpucoll_layout_builder *builder;
};

void expect_align(const Map &map, uint64_t position, uint64_t together)
{
    const gpucoll_layout *layout = map.layout;
    EXPECT_EQ(static_cast<uint64_t>(map.offset(position)) % layout->align, position % layout->align);
    EXPECT_EQ((position + together) % layout->align, 0u);
}

gpucoll_layout *build(const std::function<void(gpucoll_layout_builder *)> &add, ptrdiff_t extent)
{
    gpucoll_layout_builder *builder = gpucoll_layout_begin();
    add(builder);
    return gpucoll_layout_build(builder, extent);
}
} // namespace

TEST(layout, finds_every_byte_of_random_type_maps)
{
    int built = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        Map map(seed);
        if (map.bytes.empty()) {
            EXPECT_EQ(map.layout, nullptr);
            continue;
        }
        ASSERT_NE(map.layout, nullptr) << "seed " << seed;
        built++;
        ASSERT_EQ(map.layout->bytes, map.bytes.size()) << "seed " << seed;
        EXPECT_EQ(map.layout->first, map.bytes[0]);
        for (uint64_t position = 0; position < 3 * map.bytes.size(); position++) {
            uint64_t together = 0;
            ASSERT_EQ(gpucoll_layout_find(&map.layout->view, position, &together), map.offset(position))
                << "seed " << seed << " position " << position;
            ASSERT_GT(together, 0u);
            expect_align(map, position, together);
            for (uint64_t i = 1; i < together && position + i < 3 * map.bytes.size(); i++) {
                ASSERT_EQ(map.offset(position + i), map.offset(position) + static_cast<ptrdiff_t>(i))
                    << "seed " << seed << " position " << position;
            }
        }
    }
    EXPECT_GT(built, 400);
}

TEST(layout, joins_what_touches)
{
    gpucoll_layout *layout = build(
        [](gpucoll_layout_builder *builder) {
            gpucoll_layout_add_loop(builder, 10, 8);
            gpucoll_layout_add_run(builder, 16, 4);
            gpucoll_layout_add_run(builder, 20, 4);
            gpucoll_layout_end_loop(builder);
            gpucoll_layout_add_run(builder, 96, 4);
        },
        84);
    ASSERT_NE(layout, nullptr);
    EXPECT_TRUE(gpucoll_layout_is_run(layout, 1));
    EXPECT_TRUE(gpucoll_layout_is_run(layout, 7));
    EXPECT_EQ(layout->first, 16);
    EXPECT_EQ(layout->bytes, 84u);
    EXPECT_EQ(layout->align, 4u);
    gpucoll_layout_release(layout);
}

TEST(layout, one_element_may_be_a_run_where_two_are_not)
{
    gpucoll_layout *layout =
        build([](gpucoll_layout_builder *builder) { gpucoll_layout_add_run(builder, 0, 12); }, 16);
    EXPECT_TRUE(gpucoll_layout_is_run(layout, 1));
    EXPECT_FALSE(gpucoll_layout_is_run(layout, 2));
    gpucoll_layout_release(layout);
}

/* Rows of a matrix given one by one are as good as a vector. */
TEST(layout, regular_lists_become_dimensions)
{
    gpucoll_layout *layout = build(
        [](gpucoll_layout_builder *builder) {
            for (int plane = 0; plane < 3; plane++) {
                for (int row = 0; row < 5; row++) {
                    for (int column = 0; column < 7; column++) {
                        gpucoll_layout_add_run(builder, plane * 10000 + row * 1000 + column * 20, 8);
                    }
                }
            }
        },
        100000);
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->view.runs, 1u);
    EXPECT_EQ(layout->view.dims, 4u);
    EXPECT_EQ(layout->align, 4u);
    gpucoll_layout_release(layout);
}

TEST(layout, a_vector_of_any_length_takes_no_list)
{
    gpucoll_layout *layout = build(
        [](gpucoll_layout_builder *builder) {
            gpucoll_layout_add_loop(builder, uint64_t(1) << 31, 64);
            gpucoll_layout_add_run(builder, -32, 16);
            gpucoll_layout_end_loop(builder);
        },
        ptrdiff_t(64) << 31);
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->view.runs, 1u);
    EXPECT_EQ(layout->view.dims, 1u) << "further elements continue the vector";
    EXPECT_EQ(layout->align, 16u);
    uint64_t together = 0;
    const uint64_t far = uint64_t(5) << 35;
    EXPECT_EQ(gpucoll_layout_find(&layout->view, far + 3, &together),
              static_cast<ptrdiff_t>(far / 16 * 64) - 29);
    EXPECT_EQ(together, 13u);
    gpucoll_layout_release(layout);
}

/* Faces of a cube, one behind the other, as the blocks for a rank that is a neighbour twice. */
TEST(layout, what_is_repeated_takes_no_list)
{
    const auto add_face = [](gpucoll_layout_builder *builder, ptrdiff_t at, uint64_t planes) {
        gpucoll_layout_add_loop(builder, planes, 1000000);
        gpucoll_layout_add_loop(builder, 400, 1000);
        gpucoll_layout_add_run(builder, at, 8);
        gpucoll_layout_end_loop(builder);
        gpucoll_layout_end_loop(builder);
    };
    const struct {
        std::vector<std::pair<ptrdiff_t, uint64_t>> faces;
        uint32_t runs;
        uint32_t dims;
        uint64_t planes;
    } cases[] = {
        {{{992, 300}, {8, 300}}, 1, 4, 600},                   /* two, the other way round */
        {{{8, 300}, {108, 300}, {208, 300}}, 1, 4, 900},       /* three, equally far apart */
        {{{8, 300}, {300000008, 200}}, 1, 3, 500},             /* one that goes on */
        {{{8, 300}, {8, 300}}, 1, 3, 600},                     /* the same twice: as elements of extent 0 */
        {{{8, 20}, {108, 20}, {308, 20}}, 3 * 20 * 400, 1, 60} /* not equally far apart: a list */
    };
    for (const auto &c : cases) {
        gpucoll_layout *layout = build(
            [&](gpucoll_layout_builder *builder) {
                for (const auto &face : c.faces) {
                    add_face(builder, face.first, face.second);
                }
            },
            0);
        ASSERT_NE(layout, nullptr);
        EXPECT_EQ(layout->bytes, c.planes * 400 * 8);
        EXPECT_EQ(layout->view.runs, c.runs);
        EXPECT_EQ(layout->view.dims, c.dims);
        uint64_t position = 0;
        for (const auto &face : c.faces) {
            for (uint64_t plane = 0; plane < face.second; plane++, position += 400 * 8) {
                uint64_t together = 0;
                ASSERT_EQ(gpucoll_layout_find(&layout->view, position + 399 * 8, &together),
                          face.first + static_cast<ptrdiff_t>(plane * 1000000 + 399 * 1000));
            }
        }
        gpucoll_layout_release(layout);
    }
}

/* More loops than there are dimensions: the inner ones become a list. */
TEST(layout, deep_nests)
{
    enum { DEPTH = 8 };
    gpucoll_layout *layout = build(
        [](gpucoll_layout_builder *builder) {
            for (int depth = DEPTH; depth > 0; depth--) {
                gpucoll_layout_add_loop(builder, 2, ptrdiff_t(3) << (2 * depth));
            }
            gpucoll_layout_add_run(builder, 0, 4);
            for (int depth = DEPTH; depth > 0; depth--) {
                gpucoll_layout_end_loop(builder);
            }
        },
        1 << 20);
    ASSERT_NE(layout, nullptr);
    ASSERT_EQ(layout->bytes, 4u << DEPTH);
    for (uint64_t position = 0; position < 3 * layout->bytes; position++) {
        ptrdiff_t wanted = static_cast<ptrdiff_t>(((position / layout->bytes) << 20) | position % 4);
        for (int bit = 0; bit < DEPTH; bit++) {
            wanted += (position >> (2 + bit) & 1) != 0 ? ptrdiff_t(3) << (2 * (bit + 1)) : 0;
        }
        uint64_t together = 0;
        ASSERT_EQ(gpucoll_layout_find(&layout->view, position, &together), wanted) << position;
        ASSERT_EQ(together, 4 - position % 4);
    }
    gpucoll_layout_release(layout);
}

TEST(layout, too_irregular_is_refused)
{
    const uint64_t most = GPUCOLL_LAYOUT_MOST_RUNS;
    for (uint64_t runs : {most, most + 1}) {
        gpucoll_layout *layout = build(
            [&](gpucoll_layout_builder *builder) {
                Random random(runs);
                for (uint64_t i = 0; i < runs; i++) {
                    gpucoll_layout_add_run(builder, static_cast<ptrdiff_t>(i * 100 + random.below(50)), 4);
                }
            },
            100);
        EXPECT_EQ(layout != nullptr, runs == most);
        gpucoll_layout_release(layout);
    }
}

/* Built twice it is another object of the same places; with one byte, or the extent, elsewhere it is another layout. */
TEST(layout, equal_ones_have_the_same_places)
{
    for (uint64_t seed = 0; seed < 500; seed++) {
        const Map one(seed);
        const Map same(seed);
        const Map other(seed + 1000);
        ASSERT_TRUE(gpucoll_layout_equal(one.layout, same.layout)) << seed;
        ASSERT_EQ(gpucoll_layout_equal(one.layout, other.layout),
                  one.layout == other.layout || (one.bytes == other.bytes && one.extent == other.extent))
            << seed;
    }
    const auto runs = [](std::vector<ptrdiff_t> offsets, ptrdiff_t extent) {
        return build(
            [&](gpucoll_layout_builder *builder) {
                for (ptrdiff_t offset : offsets) {
                    gpucoll_layout_add_run(builder, offset, 4);
                }
            },
            extent);
    };
    gpucoll_layout *const layouts[] = {
        runs({0, 8, 20}, 32), runs({0, 8, 24}, 32),  runs({64, 72, 84}, 32), runs({8, 0, 20}, 32),
        runs({0, 8, 20}, 64), runs({0, 8}, 32),      runs({64, 72}, 32),     runs({0, 8, 16, 24}, 64),
        runs({0}, 32),        gpucoll_layout_plain()};
    for (gpucoll_layout *a : layouts) {
        EXPECT_FALSE(gpucoll_layout_equal(a, nullptr));
        for (gpucoll_layout *b : layouts) {
            EXPECT_EQ(gpucoll_layout_equal(a, b), a == b);
        }
    }
    EXPECT_TRUE(gpucoll_layout_equal(nullptr, nullptr));
    gpucoll_layout_retain(gpucoll_layout_plain()); /* its own reference stays */
    for (gpucoll_layout *layout : layouts) {
        gpucoll_layout_release(layout);
    }
}

TEST(layout, divides_as_the_processor_does)
{
    Random random(7);
    for (int i = 0; i < 200000; i++) {
        const uint64_t bytes = 1 + (random.next() >> (1 + random.below(62)));
        gpucoll_layout *layout = nullptr;
        const uint64_t position = i % 3 == 0 ? bytes * (1 + random.below(1000)) - random.below(2)
                                             : random.next() >> (1 + random.below(62));
        if (position >> 63 != 0 || bytes >> 62 != 0) {
            continue;
        }
        layout =
            build([&](gpucoll_layout_builder *builder) { gpucoll_layout_add_run(builder, 0, bytes); }, 0);
        ASSERT_EQ(gpucoll_layout_divide(&layout->view.dim[0], position), position / bytes)
            << position << " / " << bytes;
        gpucoll_layout_release(layout);
    }
}
