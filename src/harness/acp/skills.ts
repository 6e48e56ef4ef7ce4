import type { Launch, Skill } from "../../contract/index.ts";

/** Skills as the folder convention has them: `<folder>/<name>/SKILL.md` with a front matter. */
export function skillFiles(folder: string, skills: readonly Skill[] = []): NonNullable<Launch["files"]> {
  return skills.map(({ name, description, content }) => ({
    path: `${folder}/${name}/SKILL.md`,
    content: `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n${content}\n`,
  }));
}
