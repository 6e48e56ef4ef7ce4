import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import { ofType, turn } from "../session-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const skillText = (name: string, description = "Greets people.") =>
  `---\nname: ${name}\ndescription: ${description}\n---\n# Greeting\n`;
const files = (name: string, text = skillText(name), folder = name): File[] => [
  new File([text], `${folder}/SKILL.md`),
  new File(["#!/bin/sh\necho ü\n"], `${folder}/scripts/greet.sh`),
];

describe("K6: a skill", () => {
  it("consists of its files and has the name of its front matter", async () => {
    const skill = await bench.beta.skills.create({ files: files("greeter") });
    expect(skill).toEqual({
      id: expect.stringMatching(/^skill_/),
      type: "skill",
      display_name: "greeter",
      latest_version_id: expect.stringMatching(/^skillver_/),
      source: { type: "custom" },
      created_at: expect.any(String),
      updated_at: skill.created_at,
    });
    expect(await bench.beta.skills.retrieve(skill.id)).toEqual(skill);
    const named = await bench.beta.skills.create({ files: files("greeter"), display_name: "Greets" });
    expect(named.display_name).toBe("Greets");
    expect((await collect(bench.beta.skills.list({ source: "custom" }))).map(({ id }) => id)).toEqual([
      named.id,
      skill.id,
    ]);
    expect(await collect(bench.beta.skills.list({ source: "anthropic" }))).toEqual([]);
  });

  it("has versions, of which the newest is `latest`", async () => {
    const { id, latest_version_id: first } = await bench.beta.skills.create({ files: files("two") });
    const second = await bench.beta.skills.versions.create(id, {
      files: files("two", skillText("two", "Better.")),
    });
    expect(second).toEqual({
      id: expect.stringMatching(/^skillver_/),
      type: "skill_version",
      skill_id: id,
      name: "two",
      description: "Better.",
      created_at: expect.any(String),
    });
    expect((await bench.beta.skills.retrieve(id)).latest_version_id).toBe(second.id);
    expect(await bench.beta.skills.versions.retrieve("latest", { skill_id: id })).toEqual(second);
    const ids = (await collect(bench.beta.skills.versions.list(id))).map((version) => version.id);
    expect(ids).toEqual([second.id, first]);
    await bench.beta.skills.versions.delete(second.id, { skill_id: id });
    expect((await bench.beta.skills.versions.retrieve("latest", { skill_id: id })).id).toBe(first);
    const { error } = await failureOf(bench, () =>
      bench.beta.skills.versions.delete(first, { skill_id: id }),
    );
    expect(error).toBeInstanceOf(BadRequestError);
    const other = await failureOf(bench, () =>
      bench.beta.skills.versions.create(id, { files: files("three") }),
    );
    expect(other.error.message).toContain("is called two");
  });

  it("downloads as a zip of the uploaded files", async () => {
    const { id, latest_version_id } = await bench.beta.skills.create({ files: files("zipped") });
    const response = await bench.beta.skills.versions.download(latest_version_id, { skill_id: id });
    const folder = await mkdtemp(join(tmpdir(), "sluice-zip-"));
    try {
      await writeFile(join(folder, "x.zip"), Buffer.from(await response.arrayBuffer()));
      const program =
        "import zipfile,sys; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall(sys.argv[2]); print([oct(i.external_attr >> 16) for i in z.infolist()])";
      const { stdout } = await promisify(execFile)("python3", ["-c", program, join(folder, "x.zip"), folder]);
      expect(stdout).toBe("['0o100644', '0o100755']\n");
      expect((await readdir(join(folder, "zipped"))).sort()).toEqual(["SKILL.md", "scripts"]);
      expect(await readFile(join(folder, "zipped/SKILL.md"), "utf8")).toBe(skillText("zipped"));
      expect(await readFile(join(folder, "zipped/scripts/greet.sh"), "utf8")).toBe("#!/bin/sh\necho ü\n");
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("can be given to an agent by version or as the latest", async () => {
    const { id, latest_version_id } = await bench.beta.skills.create({ files: files("given") });
    const create = (version?: string) =>
      bench.beta.agents.create({
        name: "a",
        model: "m",
        skills: [{ type: "custom", skill_id: id, ...(version && { version }) }],
      });
    expect((await create()).skills).toEqual([{ type: "custom", skill_id: id, version: "latest" }]);
    expect((await create(latest_version_id)).skills).toMatchObject([{ version: latest_version_id }]);
    await expect(create("skillver_nope")).rejects.toBeInstanceOf(BadRequestError);
  });

  it("is available to the agent of a session in the version that was the latest at its creation", async () => {
    const { id: skill } = await bench.beta.skills.create({ files: files("at-hand") });
    const agent = await bench.beta.agents.create({
      name: "skilled",
      model: "scripted",
      tools: [{ type: "agent_toolset_20260401" }],
      skills: [{ type: "custom", skill_id: skill }],
    });
    const environment = await bench.beta.environments.create({ name: `skilled ${process.pid}` });
    const { id } = await bench.beta.sessions.create({ agent: agent.id, environment_id: environment.id });
    await bench.beta.skills.versions.create(skill, {
      files: files("at-hand", skillText("at-hand", "Too late.")),
    });
    const inside = "cd ~/.scripted/skills/at-hand";
    const all = await turn(bench, id, { shell: `${inside} && find . -type f | sort && ./scripts/greet.sh` });
    expect(JSON.stringify(ofType(all, "agent.tool_result"))).toContain("./SKILL.md");
    expect(JSON.stringify(ofType(all, "agent.tool_result"))).toContain("ü");
    const events = await turn(bench, id, { shell: "cat ~/.scripted/skills/at-hand/SKILL.md" });
    const [result] = ofType(events, "agent.tool_result");
    expect(result?.content).toEqual([
      { type: "text", text: '---\nname: at-hand\ndescription: "Greets people."\n---\n\n# Greeting\n' },
    ]);
    await bench.beta.skills.delete(skill);
    const late = bench.beta.sessions.create({ agent: agent.id, environment_id: environment.id });
    await expect(late).rejects.toBeInstanceOf(BadRequestError);
  });

  it("is gone with its versions and their contents", async () => {
    const { id, latest_version_id } = await bench.beta.skills.create({
      files: files("gone", skillText("gone", "Only here.")),
    });
    const stored = await bench.catalog.find("default", "skill_version", latest_version_id);
    const [{ content } = { content: "" }] = (stored as { body: { files: { content: string }[] } }).body.files;
    expect(await bench.catalog.bytes.read(content)).toBeDefined();
    expect(await bench.beta.skills.delete(id)).toEqual({ id, type: "skill_deleted" });
    await expect(bench.beta.skills.versions.retrieve("latest", { skill_id: id })).rejects.toBeInstanceOf(
      NotFoundError,
    );
    expect(await bench.catalog.bytes.read(content)).toBeUndefined();
  });

  it.each([
    ["no SKILL.md", [new File(["x"], "a/README.md")]],
    ["no folder", [new File([skillText("a")], "SKILL.md")]],
    ["two folders", [new File([skillText("a")], "a/SKILL.md"), new File(["x"], "b/x")]],
    ["a way out", [new File([skillText("a")], "a/SKILL.md"), new File(["x"], "a/../../x")]],
    ["no front matter", [new File(["# a"], "a/SKILL.md")]],
    ["no description", [new File(["---\nname: a\n---\n"], "a/SKILL.md")]],
    ["a bad name", [new File([skillText("Not A Slug")], "a/SKILL.md")]],
    ["a file twice", [...files("a"), new File(["x"], "a/SKILL.md")]],
  ])("is refused with %s", async (_, given) => {
    const { error, requests } = await failureOf(bench, () => bench.beta.skills.create({ files: given }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(requests).toBe(1);
  });
});
