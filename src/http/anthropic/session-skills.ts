import type { Skill } from "../../contract/index.ts";
import type { AgentSkill } from "../../dialects/anthropic/resources/agent.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toSkillContent } from "../../dialects/anthropic/resources/skill.ts";
import type { AnthropicServices } from "./services.ts";
import { readSkillFile } from "./skills.ts";

/** An agent's skills as its session takes them along: `latest` is the one that is it now. */
export async function readSkills(
  { catalog, shelves }: AnthropicServices,
  owner: string,
  given: readonly AgentSkill[],
): Promise<Skill[]> {
  const skills: Skill[] = [];
  for (const { skill_id: id, version } of given) {
    const skill = await shelves.skills.find(owner, id);
    const wanted = version === "latest" ? skill?.body.latest_version_id : version;
    const found = wanted === undefined ? undefined : await shelves.skillVersions.find(owner, wanted);
    const main = found?.body.files.find(({ path }) => path === "SKILL.md");
    if (!found || !main || found.parent !== id)
      throw refuse(`skills: ${id} has no version ${version} any more. Give the agent another one.`);
    const { name, description } = found.body;
    if (skills.some((other) => other.name === name))
      throw refuse(`skills: two of them are called ${name}, and the agent could not tell them apart.`);
    const text = new TextDecoder().decode(await readSkillFile(catalog, main));
    skills.push({ name, description, content: toSkillContent(text) });
  }
  return skills;
}
