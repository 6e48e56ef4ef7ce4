import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { listPages } from "../../scripts/docs/pages.mjs";
import { requireClient } from "../support/clients.ts";
import { createSampleProject, readSamples, type Sample, type SampleProject } from "../support/samples.ts";

/** The protocol and the guide for contributors show texts of the wire and of the tree, no programs. */
const PAGES = ["README.md", "CONTRIBUTING.md", ...listPages().filter((page) => page.startsWith("docs/"))];
const SAMPLES = PAGES.flatMap(readSamples);
const TYPESCRIPT = SAMPLES.filter(({ language }) => language === "ts");

/** Packages that are no dependency of ours, and the stack of clients that has them. */
const STACKS = { "@copilotkit/runtime": "copilotkit-1.75", "@tanstack/ai-sandbox": "tanstack-0.42" };

const projects: SampleProject[] = [];
afterAll(() => Promise.all(projects.map((project) => project.remove())));

async function problemsOf(samples: readonly Sample[], modules?: string): Promise<string[]> {
  const project = await createSampleProject(modules);
  projects.push(project);
  return project.check(samples);
}

describe("the samples of the documents", () => {
  it("are in a language that is looked at", () => {
    expect(TYPESCRIPT.length).toBeGreaterThan(0);
    const known = new Set(["ts", "typescript", "sh", "json", "nginx", "caddy", "text", "mermaid"]);
    const unknown = SAMPLES.filter(({ language }) => !known.has(language));
    expect(unknown.map(({ name }) => name)).toEqual([]);
  });

  it("compile in strict mode", { timeout: 180_000 }, async () => {
    expect(await problemsOf(TYPESCRIPT.filter((sample) => stackOf(sample) === undefined))).toEqual([]);
  });

  it.for(Object.values(STACKS))(
    "compile in strict mode with %s",
    { timeout: 180_000 },
    async (name, { skip }) => {
      const { client, reason } = requireClient(name);
      if (client === undefined) return skip(reason);
      const samples = TYPESCRIPT.filter((sample) => stackOf(sample) === name);
      expect(samples.length).toBeGreaterThan(0);
      expect(await problemsOf(samples, join(client.folder, "node_modules"))).toEqual([]);
    },
  );
});

function stackOf({ packages }: Sample): string | undefined {
  return Object.entries(STACKS).find(([name]) => packages.includes(name))?.[1];
}
