/*
 * core/topology: files that are wrong are refused with their line and what is wrong there, whatever is in them.
 */
#include "test/unit/topology_samples.h"
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

struct Bad {
    std::string text;
    unsigned line;
    const char *error;
};

static void expect_refused(const Bad &bad)
{
    SCOPED_TRACE(bad.text);
    RecordingLog log;
    Topology topology = from_text(bad.text, log);
    EXPECT_FALSE(topology.ok());
    std::string said = log.text_of("topology-file");
    EXPECT_NE(said.find("Line:   " + std::to_string(bad.line) + " "), std::string::npos) << said;
    EXPECT_NE(said.find(bad.error), std::string::npos) << said;
}

TEST(topology_file, what_is_not_xml_is_refused_with_its_line)
{
    static const Bad files[] = {
        {"", 1, "there is no element in the file"},
        {"\n\n<!-- nothing -->\n", 4, "there is no element in the file"},
        {"hello", 1, "text between elements: \"hello\""},
        {"<", 1, "expected the name of an element"},
        {"<a", 1, "expected an attribute, > or /> in the element a"},
        {"<gpucoll_topology version=\"1\">\n", 2,
         "the file ends inside the element gpucoll_topology of line 1"},
        {"<gpucoll_topology version=1>", 1, "the value of version is not in quotes"},
        {"<gpucoll_topology version>", 1, "expected = after the attribute version"},
        {"<gpucoll_topology version=\"1>\n", 1, "no closing quote"},
        {"<gpucoll_topology version=\"1\" version=\"1\">", 1, "the attribute version is given twice"},
        {"<gpucoll_topology version=\"1\"version=\"1\">", 1, "expected a space"},
        {"<gpucoll_topology version=\"&one;\">", 1, "not a character reference"},
        {"<gpucoll_topology version=\"&#0;\">", 1, "not a character reference"},
        {"<gpucoll_topology version=\"<\">", 1, "may not stand there (code 60)"},
        {"<gpucoll_topology version=\"\x01\">", 1, "may not stand there (code 1)"},
        {"<gpucoll_topology version=\"1\">\n</host>", 2,
         "</host> where </gpucoll_topology> is expected, for the element of line 1"},
        {"</a>", 1, "</a> ends an element that has not begun"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]>", 1, "elements, attributes and comments only"},
        {"<?php ?>", 1, "elements, attributes and comments only"},
        {"<!-- \n\n", 1, "a comment does not end: \"-->\" is missing"},
        {"<gpucoll_topology version=\"1\"><host name=\"a\"/></gpucoll_topology><b/>", 1,
         "a second root element, b"},
        {"<gpucoll_topology version=\"1\"><host name=\"a\"/></gpucoll_topology>\nb", 2,
         "text between elements"},
    };
    for (const Bad &bad : files) {
        expect_refused(bad);
    }
}

TEST(topology_file, roots_of_other_kinds_are_refused)
{
    static const Bad files[] = {
        {"<topology version=\"2.0\"/>", 1, "the root element is <topology>, expected <gpucoll_topology>"},
        {"<gpucoll_topology/>", 1, "expected <gpucoll_topology version=\"1\">"},
        {"<gpucoll_topology version=\"2\"/>", 1, "expected <gpucoll_topology version=\"1\">"},
        {"<gpucoll_topology version=\"1\" more=\"\"/>", 1, "expected <gpucoll_topology version=\"1\">"},
        {"<gpucoll_topology version=\"1\">\n</gpucoll_topology>", 2, "there is no <host>"},
        {"<gpucoll_topology version=\"1\">\n<gpu id=\"0\"/>", 2, "<gpu> may not stand in <gpucoll_topology>"},
        {"<gpucoll_topology version=\"1\">\n<nvlink/>", 2, "<nvlink> stands in <gpu> only"},
        {"<gpucoll_topology version=\"1\"><host name=\"a\"/>\n<host name=\"a\"/></gpucoll_topology>", 2,
         "<host> has the same name as the element of line 1"},
    };
    for (const Bad &bad : files) {
        expect_refused(bad);
    }
}

/* The third line is the first inside <host>. */
TEST(topology_file, contents_that_are_wrong_are_refused_with_their_line)
{
    static const Bad insides[] = {
        {"<cpu/>", 3, "there is no element <cpu>"},
        {"<host name=\"b\"/>", 3, "<host> may not stand in <host>"},
        {"<gpu/>", 3, "<gpu> needs the attribute id: a number from 0 to 65535"},
        {"\n<gpu id=\"-1\"/>", 4, "id=\"-1\" of <gpu>: expected a number"},
        {"<gpu id=\"0\"\nlinks=\"3\"/>", 4, "<gpu> has no attribute links"},
        {"<gpu id=\"0\"/><gpu id=\"0\"/>", 3, "<gpu> has the same id as the element of line 3"},
        {"<gpu id=\"0\" pci=\"0:0:0\"/>", 3, "expected a PCI address"},
        {"<gpu id=\"0\" pci=\"0000:01:00.8\"/>", 3, "expected a PCI address"},
        {"<gpu id=\"0\" pci=\"0000:01:20.0\"/>", 3, "expected a PCI address"},
        {"<gpu id=\"0\" pci=\"0000:01:00.0\"/>\n<nic name=\"n\" kind=\"roce\" pci=\"0000:01:00.0\"/>", 4,
         "<nic> has the same pci as the element of line 3"},
        {"<gpu id=\"0\" uuid=\"GPU-1\"/>", 3, "GPU- and 32 hexadecimal digits"},
        {"<gpu id=\"0\" uuid=\"GPU-0000000g-0000-4000-8000-000000000000\"/>", 3, "GPU- and 32 hexadecimal"},
        {"<gpu id=\"0\" memory_mib=\"0\"/>", 3, "a number of MiB, at least 1"},
        {"<gpu id=\"0\" memory_mib=\"99999999999999999999999\"/>", 3, "a number of MiB"},
        {"<gpu id=\"0\" pcie_generation=\"8\"/>", 3, "a PCIe generation from 1 to 7"},
        {"<gpu id=\"0\" compute=\"9\"/>", 3, "a compute capability such as 9.0"},
        {"<gpu id=\"0\" compute=\".0\"/>", 3, "a compute capability such as 9.0"},
        {"<gpu id=\"0\" compute=\"0.9\"/>", 3, "a compute capability such as 9.0"},
        {"<gpu id=\"0\" compute=\"9.01\"/>", 3, "a compute capability such as 9.0"},
        {"<gpu id=\"0\" name=\"\"/>", 3, "a text that is not empty"},
        {"<gpu id=\"0\" board=\"0123456789012345678901234567890123456789\"/>", 3, "not too long"},
        {"<gpu id=\"0\">\n<gpu id=\"1\"/></gpu>", 4, "<gpu> may not stand in <gpu>"},
        {"<socket id=\"0\" cpus=\"3-1\"/>", 3, "ascending CPU numbers below 1024"},
        {"<socket id=\"0\" cpus=\"0-1024\"/>", 3, "ascending CPU numbers below 1024"},
        {"<socket id=\"0\" cpus=\"0,\"/>", 3, "ascending CPU numbers"},
        {"<socket id=\"0\" cpus=\"\"/>", 3, "ascending CPU numbers"},
        {"<socket id=\"0\" cpus=\"5,4\"/>", 3, "ascending CPU numbers"},
        {"<socket id=\"0\" cpus=\"0-3\"/>\n<socket id=\"1\" cpus=\"3\"/>", 4,
         "CPUs that the one of line 3 has too"},
        {"<socket id=\"0\" cpus=\"0-3\">\n<numa id=\"0\" cpus=\"3-4\"/></socket>", 4,
         "<numa> has CPUs that its socket (line 3) lacks"},
        {"<nic name=\"n\" kind=\"token ring\"/>", 3, "expected infiniband, roce"},
        {"<nic name=\"n\"/>", 3, "<nic> needs the attribute kind"},
        {"<nic name=\"n\" kind=\"roce\" gbits=\"0\"/>", 3, "a number of Gbit/s above 0"},
        {"<nic name=\"n\" kind=\"roce\" gbits=\"1e9\"/>", 3, "a number of Gbit/s above 0"},
        {"<nic name=\"n\" kind=\"roce\" gbits=\"1.2.3\"/>", 3, "a number of Gbit/s above 0"},
        {"<nic name=\"n\" kind=\"roce\" state=\"UP\"/>", 3, "expected up or down"},
        {"<nic name=\"n\" kind=\"roce\"/>\n<nic name=\"n\" kind=\"roce\"/>", 4, "<nic> has the same name"},
        {"<gpu id=\"0\"><nvlink links=\"2\" version=\"4\"/></gpu>", 3, "<nvlink> needs the attribute to"},
        {"<gpu id=\"0\"><nvlink to=\"sky\" links=\"2\" version=\"4\"/></gpu>", 3,
         "to=\"sky\" of <nvlink>: expected the id"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" version=\"4\"/></gpu>", 3,
         "<nvlink> needs the attribute links"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" links=\"0\" version=\"4\"/></gpu>", 3,
         "a number from 1 to 144"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" links=\"2\" version=\"four\"/></gpu>", 3,
         "a number from 1 to 9, or c2c"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" links=\"2\" version=\"4\" speed=\"1\"/></gpu>", 3,
         "<nvlink> has no attribute speed"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" links=\"2\" version=\"4\"><gpu id=\"1\"/></nvlink></gpu>", 3,
         "<gpu> may not stand in <nvlink>"},
        {"<gpu id=\"0\">\n<nvlink to=\"1\" links=\"2\" version=\"4\"/></gpu>", 4,
         "there is no GPU 1 on this host"},
        {"<gpu id=\"0\"><nvlink to=\"0\" links=\"2\" version=\"4\"/></gpu>", 3,
         "an NVLink of GPU 0 leads to itself"},
        {"<gpu id=\"0\"><nvlink to=\"switch\" links=\"2\" version=\"4\"/>\n<nvlink to=\"switch\" links=\"2\" "
         "version=\"4\"/></gpu>",
         4, "are given in line 3 already"},
        {"<gpu id=\"0\">\n<nvlink to=\"1\" links=\"2\" version=\"4\"/></gpu><gpu id=\"1\"/>", 4,
         "GPU 1 does not say the same of its NVLinks to GPU 0"},
    };
    for (const Bad &bad : insides) {
        expect_refused({"<gpucoll_topology version=\"1\">\n<host name=\"h\">\n" + bad.text +
                            "\n</host>\n</gpucoll_topology>\n",
                        bad.line, bad.error});
    }
}

TEST(topology_file, what_xml_allows_is_read)
{
    RecordingLog log;
    Topology topology =
        from_text("\xef\xbb\xbf<?xml version='1.0'?>\r\n<!-- a -- b --><gpucoll_topology version = '1' >"
                  "<host name='a&amp;b &#233;&#x20ac;\"'><gpu id=\"0\"\n\tname=\"&lt;&gt;\" ></gpu ></host>"
                  "</gpucoll_topology >\n<!-- end -->\n",
                  log);
    ASSERT_TRUE(topology.ok()) << log.text_of("topology-file");
    EXPECT_STREQ(topology->objects[0].name, "a&b \xc3\xa9\xe2\x82\xac\"");
    EXPECT_STREQ(topology->objects[1].name, "<>");
    EXPECT_EQ(from_text(topology.xml(), log).xml(), topology.xml());
}

static std::string error_of(const char *path)
{
    RecordingLog log;
    struct gpucoll_topology *topology = nullptr;
    EXPECT_EQ(gpucoll_topology_read(path, log.get(), &topology), GPUCOLL_ERR_INVALID);
    EXPECT_EQ(topology, nullptr);
    return log.text_of("topology-file");
}

TEST(topology_file, what_cannot_be_read_is_said)
{
    EXPECT_NE(error_of("/nowhere/topology.xml").find("No such file or directory"), std::string::npos);
    EXPECT_NE(error_of("/nowhere/topology.xml").find("/nowhere/topology.xml"), std::string::npos);
    EXPECT_NE(error_of("/").find("Is a directory"), std::string::npos);
    EXPECT_NE(error_of("/dev/zero").find("larger than 16 MiB"), std::string::npos);
    RecordingLog log;
    EXPECT_FALSE(from_text(std::string("<a>\0</a>", 8), log).ok());
    EXPECT_NE(log.text_of("topology-file").find("zero bytes"), std::string::npos);
}

TEST(topology_file, nesting_and_attributes_are_bounded)
{
    RecordingLog log;
    std::string deep;
    for (int i = 0; i < 40; i++) {
        deep += "<pcie_switch>";
    }
    EXPECT_FALSE(from_host(deep, log).ok());
    EXPECT_NE(log.text_of("topology-file").find("nested more than 32 deep"), std::string::npos);
    std::string wide = "<gpu";
    for (int i = 0; i < 40; i++) {
        wide += " a" + std::to_string(i) + "=\"\"";
    }
    RecordingLog other;
    EXPECT_FALSE(from_host(wide + "/>", other).ok());
    EXPECT_NE(other.text_of("topology-file").find("more than 24 attributes"), std::string::npos);
}

/* Samples with bytes changed, lost, doubled and cut off: read or refused, but never more than that. What is read can be used, written
 * and read again. */
TEST(topology_file, damaged_files_do_no_harm)
{
    static const char pieces[] = "<>/=\"'&;!-? \n0159azGPU:.,\x01\x80\xff";
    const uint64_t seed = 20261121;
    Random random(seed);
    int read = 0;
    for (int round = 0; round < 3000; round++) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
        const std::string &name =
            sample_machines[random.below(static_cast<uint32_t>(sample_machines.size()))];
        std::string text = read_all(source_file("test/topology/" + name + ".xml"));
        for (uint32_t i = random.below(4) + 1; i > 0; i--) {
            size_t at = random.below(static_cast<uint32_t>(text.size()));
            size_t length = random.below(40);
            switch (random.below(5)) {
            case 0:
                text[at] = pieces[random.below(sizeof(pieces) - 1)];
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(at, text.substr(at, length));
                break;
            case 3:
                text.insert(at, 1, pieces[random.below(sizeof(pieces) - 1)]);
                break;
            default:
                text.resize(random.below(8) ? text.size() : at + 1);
                break;
            }
        }
        RecordingLog log;
        Topology topology = from_text(text, log);
        if (topology.ok()) {
            read++;
            struct gpucoll_topology_links links;
            gpucoll_topology_links(topology, 8, &links);
            EXPECT_FALSE(topology.printed().empty());
            EXPECT_EQ(from_text(topology.xml(), log).xml(), topology.xml());
        }
    }
    EXPECT_GT(read, 0);
}
