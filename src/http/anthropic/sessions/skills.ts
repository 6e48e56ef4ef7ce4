import type { Document } from "../../../catalog/port.ts";
import type { Skill } from "../../../contract/index.ts";
import type { AgentSkill } from "../../../dialects/anthropic/resources/agent.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import {
  type SkillFile,
  type SkillVersionBody,
  toSkillContent,
} from "../../../dialects/anthropic/resources/skill.ts";
import { modeOf, readSkillFile } from "../resources/skills.ts";
import type { AnthropicServices } from "../route.ts";

/** The skills of an agent for a new session; `latest` is resolved now. */
export async function readSkills(
  services: AnthropicServices,
  tenant: string,
  given: readonly AgentSkill[],
): Promise<Skill[]> {
  const skills: Skill[] = [];
  for (const { main, version } of await findVersions(services, tenant, given)) {
    const { name, description } = version.body;
    if (skills.some((other) => other.name === name))
      throw refuse(
        `skills: two skills are named ${name}, and the agent could not distinguish them. Leave one out.`,
      );
    const text = new TextDecoder().decode(await readSkillFile(services.catalog, main));
    skills.push({ name, description, content: toSkillContent(text) });
  }
  return skills;
}

/** Writes the further files of skills into the agent's skills folder. */
export async function writeSkillFiles(
  services: AnthropicServices,
  tenant: string,
  { session, given }: { session: string; given: readonly AgentSkill[] },
): Promise<void> {
  const { catalog, engine } = services;
  const { agent } = await engine.info(session);
  const folder = engine.skillsFolder(agent);
  if (folder === undefined) return;
  for (const { main, version } of await findVersions(services, tenant, given)) {
    const { name, files } = version.body;
    for (const file of files) {
      if (file === main) continue;
      const content = await readSkillFile(catalog, file);
      const target = await engine.files(session);
      await target.write(`${folder}/${name}/${file.path}`, content, { mode: modeOf(content) });
    }
  }
}

interface Found {
  readonly version: Document<SkillVersionBody>;
  readonly main: SkillFile;
}

async function findVersions(
  { collections }: AnthropicServices,
  tenant: string,
  given: readonly AgentSkill[],
): Promise<Found[]> {
  const all: Found[] = [];
  for (const { skill_id: id, version: wanted } of given) {
    const skill = await collections.skills.find(tenant, id);
    const named = wanted === "latest" ? skill?.body.latest_version_id : wanted;
    const version = named === undefined ? undefined : await collections.skillVersions.find(tenant, named);
    const main = version?.body.files.find(({ path }) => path === "SKILL.md");
    if (!version || !main || version.parent !== id)
      throw refuse(`skills: the version ${wanted} of ${id} was deleted. Give the agent another version.`);
    all.push({ version, main });
  }
  return all;
}
