import type { Launch, SessionSpec } from "../../contract/index.ts";

/** The session's skills in the common folder layout: `<folder>/<name>/SKILL.md` with front matter. */
export function skillFiles(folder: string, { skills }: SessionSpec): NonNullable<Launch["files"]> {
  if (!Array.isArray(skills)) return [];
  return skills.map(({ name, description, content }) => ({
    path: `${folder}/${name}/SKILL.md`,
    content: `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n${content}\n`,
  }));
}
