import type { Document } from "../../catalog/port.ts";
import type { Skill } from "../../contract/index.ts";
import type { AgentSkill } from "../../dialects/anthropic/resources/agent.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import {
  type SkillFile,
  type SkillVersionBody,
  toSkillContent,
} from "../../dialects/anthropic/resources/skill.ts";
import type { AnthropicServices } from "./services.ts";
import { modeOf, readSkillFile } from "./skills.ts";

/** An agent's skills as its session takes them along: `latest` is the one that is it now. */
export async function readSkills(
  services: AnthropicServices,
  owner: string,
  given: readonly AgentSkill[],
): Promise<Skill[]> {
  const skills: Skill[] = [];
  for (const { main, version } of await findVersions(services, owner, given)) {
    const { name, description } = version.body;
    if (skills.some((other) => other.name === name))
      throw refuse(`skills: two of them are called ${name}, and the agent could not tell them apart.`);
    const text = new TextDecoder().decode(await readSkillFile(services.catalog, main));
    skills.push({ name, description, content: toSkillContent(text) });
  }
  return skills;
}

/** What a skill brings beside its own text lies beside it, where the agent looks for skills. */
export async function placeSkillFiles(
  services: AnthropicServices,
  owner: string,
  { session, given }: { session: string; given: readonly AgentSkill[] },
): Promise<void> {
  const { catalog, engine } = services;
  const { agent } = await engine.info(session);
  const folder = engine.skillsFolder(agent);
  if (folder === undefined) return;
  for (const { main, version } of await findVersions(services, owner, given)) {
    const { name, files } = version.body;
    for (const file of files) {
      if (file === main) continue;
      const content = await readSkillFile(catalog, file);
      const placed = await engine.files(session);
      await placed.write(`${folder}/${name}/${file.path}`, content, { mode: modeOf(content) });
    }
  }
}

interface Found {
  readonly version: Document<SkillVersionBody>;
  readonly main: SkillFile;
}

async function findVersions(
  { shelves }: AnthropicServices,
  owner: string,
  given: readonly AgentSkill[],
): Promise<Found[]> {
  const all: Found[] = [];
  for (const { skill_id: id, version: wanted } of given) {
    const skill = await shelves.skills.find(owner, id);
    const named = wanted === "latest" ? skill?.body.latest_version_id : wanted;
    const version = named === undefined ? undefined : await shelves.skillVersions.find(owner, named);
    const main = version?.body.files.find(({ path }) => path === "SKILL.md");
    if (!version || !main || version.parent !== id)
      throw refuse(`skills: ${id} has no version ${wanted} any more. Give the agent another one.`);
    all.push({ version, main });
  }
  return all;
}
