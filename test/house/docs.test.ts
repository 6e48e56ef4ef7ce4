import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { readGenerated, readWalk, withPart } from "../../scripts/architecture.mjs";
import { CURES } from "../../scripts/docs/error-reference.mjs";
import { readReference } from "../../scripts/docs/reference.mjs";
import { listFiles, roomOf, SRC } from "../../scripts/source-graph.mjs";
import { ERRORS } from "../../src/contract/index.ts";
import { CAPABILITIES, type ProviderCapabilities } from "../../src/sandbox/capabilities.ts";
import { coverageOf, FEATURES, harnesses } from "../../src/harness/index.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Tables that say what the code says; `UPDATE_DOCS=1 npm test test/house` writes them anew. */
describe("the documents", () => {
  it.each([
    { file: "PROTOCOL.md", name: "errors", text: errorTable() },
    { file: "README.md", name: "agents", text: agentTable() },
    { file: "docs/sandboxes.md", name: "capabilities", text: capabilityTable() },
    ...readGenerated(),
    ...readReference(ERRORS),
    ...harnesses.map((harness) => ({
      file: `docs/agents/${harness.id}.md`,
      name: "facts",
      text: agentFacts(harness),
    })),
  ])("$file has the true part of $name", (part) => {
    const path = resolve(ROOT, part.file);
    const wanted = withPart(readFileSync(path, "utf8"), part);
    if (process.env["UPDATE_DOCS"]) writeFileSync(path, wanted);
    expect(readFileSync(path, "utf8")).toBe(wanted);
  });

  it("have a cure for every error, and for no other", () => {
    expect(Object.keys(CURES).toSorted()).toEqual(Object.keys(ERRORS).toSorted());
  });

  it("PROTOCOL.md names every event type", async () => {
    const { EVENT_TYPES } = await import("../../src/contract/index.ts");
    const text = readFileSync(resolve(ROOT, "PROTOCOL.md"), "utf8");
    for (const type of EVENT_TYPES) {
      const family = `\`${type.split(".")[0]}.*\``;
      expect(text.includes(`\`${type}\``) || text.includes(family), type).toBe(true);
    }
  });
});

describe("the pages", () => {
  const roots = ["README.md", "AGENTS.md", "CONTRIBUTING.md", "PROTOCOL.md", "SECURITY.md", "CHANGELOG.md"];
  const pages = [...roots, ...listFiles(join(ROOT, "docs")).map((file) => `docs/${file}`)];

  it.each(pages.filter((page) => page.endsWith(".md")))("%s has no dead link", (page) => {
    const text = readFileSync(join(ROOT, page), "utf8").replaceAll(/```[\s\S]*?```/g, "");
    const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)].map((match) => match[1] ?? "");
    expect(links.filter((link) => !existsSync(join(ROOT, dirname(page), link)))).toEqual([]);
  });
});

describe("the walks of AGENTS.md", () => {
  const guide = readFileSync(join(ROOT, "AGENTS.md"), "utf8");

  it.each(["out", "in"] as const)("%s: has files that exist, each in its room", (name) => {
    for (const { room, file } of readWalk(guide, name)) {
      expect(existsSync(join(SRC, file)), file).toBe(true);
      expect(dirname(file)).toBe(room);
    }
  });

  it.each(["out", "in"] as const)("%s: visits no room twice", (name) => {
    const rooms = readWalk(guide, name).map(({ room }) => roomOf(room));
    const visits = rooms.filter((room, index) => room !== rooms[index - 1]);
    expect(visits).toEqual([...new Set(visits)]);
  });
});

function errorTable(): string {
  const rows = Object.entries(ERRORS).map(([code, row]) => `| \`${code}\` | ${row.status} | ${row.title} |`);
  return ["| code | status | title |", "|---|---|---|", ...rows, ""].join("\n");
}

const NETWORKS: Record<ProviderCapabilities["network"], string> = {
  policy: "hosts and ports, or nothing",
  hosts: "public hosts, or nothing",
  none: "nothing at all",
  full: "(it cannot be limited)",
};

function capabilityTable(): string {
  const columns: Record<string, (row: ProviderCapabilities) => string> = {
    sandbox: ({ name, page }) => `[\`${name}\`](sandboxes/${page})`,
    "the agent runs in": ({ where }) => where,
    isolated: ({ isolated }) => yes(isolated),
    "network can be limited to": ({ network }) => NETWORKS[network],
    "folder of this machine": ({ directory }) => yes(directory),
    image: ({ image }) => yes(image),
    pause: ({ pause }) => yes(pause),
    "after a stop": ({ restart }) => restart,
    limits: ({ limits }) => limits,
    "lent secrets": ({ lends }) => yes(lends),
    "proven with": ({ proven }) => proven,
  };
  const rows = CAPABILITIES.map((row) => Object.values(columns).map((cell) => cell(row)));
  const lines = [Object.keys(columns), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return [lines[0], `|${"---|".repeat(Object.keys(columns).length)}`, ...lines.slice(1), ""].join("\n");
}

function agentTable(): string {
  const agents = harnesses.map((harness) => ({ title: harness.title, covers: coverageOf(harness) }));
  const caveats = harnesses.flatMap(({ title, caveat }) =>
    caveat === undefined ? [] : ["", `${title}: ${caveat}.`],
  );
  const rows = FEATURES.map(
    (feature) =>
      `| ${words(feature)} | ${agents.map(({ covers }) => (covers[feature] ? "✓" : "")).join(" | ")} |`,
  );
  return [
    `| | ${agents.map(({ title }) => title).join(" | ")} |`,
    `|---|${agents.map(() => ":-:|").join("")}`,
    ...rows,
    ...caveats,
    "",
  ].join("\n");
}

function agentFacts(harness: (typeof harnesses)[number]): string {
  const { id, credentials = [], addresses = [], choices, skillsFolder, lacks = [] } = harness;
  const keys = credentials
    .filter((credential) => !("isCompanion" in credential))
    .map((credential) => ("env" in credential ? credential.env : `~/${credential.file}`));
  const rows = {
    "`--agent`": list([id]),
    "keys, the first that exists": list(keys),
    "address of the model": list(addresses),
    modes: list(choices?.modes),
    "known models": list(choices?.models),
    variants: list(choices?.variants),
    "skills in its home": list(skillsFolder === undefined ? [] : [skillsFolder]),
    "does not have": lacks.map(words).join(", "),
  };
  const told = Object.entries(rows).filter(([, text]) => text !== "");
  return ["| | |", "|---|---|", ...told.map(([name, text]) => `| ${name} | ${text} |`), ""].join("\n");
}

function list(entries: readonly string[] = []): string {
  return entries.map((entry) => `\`${entry}\``).join(", ");
}

function words(feature: string): string {
  return feature.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function yes(is: boolean): string {
  return is ? "yes" : "no";
}
