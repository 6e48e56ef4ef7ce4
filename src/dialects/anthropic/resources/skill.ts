import type { BetaSkill, BetaSkillVersion } from "@anthropic-ai/sdk/resources/beta/skills";
import { refuse, type Stored, toTimes, toTimestamp } from "./resource.ts";

export interface SkillBody {
  readonly display_name: string;
  /** The slug of the first version; every later version has the same. */
  readonly name: string;
  readonly latest_version_id: string;
}

export interface SkillVersionBody {
  readonly skill_id: string;
  readonly name: string;
  readonly description: string;
  /** Paths below the skill's folder with the SHA-256 of each content. */
  readonly files: readonly SkillFile[];
}

export interface SkillFile {
  readonly path: string;
  readonly content: string;
  readonly size: number;
}

export function toSkill(stored: Stored<SkillBody>): BetaSkill {
  const { display_name, latest_version_id } = stored.body;
  const source = { type: "custom" } as const;
  return { id: stored.id, type: "skill", display_name, latest_version_id, source, ...toTimes(stored) };
}

export function toSkillVersion({ id, createdAt, body }: Stored<SkillVersionBody>): BetaSkillVersion {
  const { skill_id, name, description } = body;
  return { id, type: "skill_version", skill_id, name, description, created_at: toTimestamp(createdAt) };
}

/** Splits an upload's path: all files are in one top folder. */
export function toSkillPath(filename: string): { folder: string; path: string } {
  const [folder, ...rest] = filename.replaceAll("\\", "/").split("/");
  if (!folder || rest.length === 0 || ![folder, ...rest].every(isPlain))
    throw refuse(`files: ${JSON.stringify(filename.slice(0, 200))} is not a path such as my-skill/SKILL.md.`);
  return { folder, path: rest.join("/") };
}

function isPlain(part: string): boolean {
  return part !== "" && part !== "." && part !== "..";
}

/** The name and description in the front matter of SKILL.md. */
export function parseSkillText(text: string, folder: string): { name: string; description: string } {
  const front = FRONT_MATTER.exec(text)?.[1];
  if (front === undefined)
    throw refuse("files: SKILL.md has to begin with a front matter between two lines of ---.");
  const name = toSlug(fieldOf(front, "name") ?? folder);
  const description = fieldOf(front, "description");
  if (!description) throw refuse("files: the front matter of SKILL.md needs a description.");
  if (description.length > 1024)
    throw refuse("files: the description of SKILL.md has more than 1024 characters.");
  return { name, description };
}

/** The text after the front matter. */
export function toSkillContent(text: string): string {
  return text.replace(FRONT_MATTER, "").trim();
}

const FRONT_MATTER = /^\uFEFF?---\r?\n(.*?)\r?\n---(\r?\n|$)/s;

function toSlug(name: string): string {
  if (/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) && name.length <= 64) return name;
  throw refuse(
    `files: the name ${JSON.stringify(name.slice(0, 80))} needs 1 to 64 lower-case letters, digits and single hyphens.`,
  );
}

/** The value of a field in front matter: a YAML scalar, plain, quoted, folded or literal. */
function fieldOf(front: string, field: string): string | undefined {
  const lines = front.split(/\r?\n/);
  const at = lines.findIndex((line) => line.startsWith(`${field}:`));
  if (at < 0) return undefined;
  const first = lines[at]?.slice(field.length + 1).trim() ?? "";
  const following: string[] = [];
  for (const line of lines.slice(at + 1)) {
    if (!/^\s/.test(line) && line !== "") break;
    following.push(line.trim());
  }
  if (/^[>|][+-]?$/.test(first)) return following.join(first.startsWith("|") ? "\n" : " ").trim();
  if (first.startsWith('"') || first.startsWith("'"))
    return first.slice(1, first.lastIndexOf(first[0] ?? ""));
  return [first, ...following].join(" ").trim();
}
