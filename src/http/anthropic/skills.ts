import { z } from "zod";
import type { HeldBytes } from "../../catalog/bytes/port.ts";
import type { Catalog, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import {
  parseSkillText,
  type Skill,
  type SkillBody,
  type SkillFile,
  type SkillVersion,
  type SkillVersionBody,
  toSkill,
  toSkillPath,
  toSkillVersion,
} from "../../dialects/anthropic/resources/skill.ts";
import { streamBody } from "../body.ts";
import { readField, readParts } from "../multipart.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { removedOnce } from "./resend.ts";
import type { AnthropicCall, Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { toList } from "./shelf.ts";
import { toZip } from "./zip.ts";

/** Of all files of one version together. */
const MAX_BYTES = 30 * 1024 * 1024;
const MAX_FILES = 500;

const ListSkills = z.object({ limit: params.limitOf(20), page: params.page, source: params.text });
const ListVersions = z.object({ limit: params.limitOf(20), page: params.page });

export function mountSkills(route: Route, services: AnthropicServices): void {
  const { catalog, shelves } = services;
  const { skills, skillVersions: versions } = shelves;

  /** By its id, or as `latest`. */
  const getVersion = async (
    owner: string,
    id: string,
    version: string,
  ): Promise<Document<SkillVersionBody>> => {
    const skill = await skills.get(owner, id);
    const found = await versions.find(owner, version === "latest" ? skill.body.latest_version_id : version);
    if (found?.parent === id) return found;
    throw noVersion(id, version);
  };

  route("POST", "/skills", {}, (call) =>
    withUpload(call.c, catalog, (upload) => {
      const make = async (labels: Labels): Promise<Skill> => {
        const [id, version] = [createId("skill"), createId("skillVersion")];
        const { name } = upload.version;
        const display_name = upload.displayName ?? name;
        const body: SkillBody = { display_name, name, latest_version_id: version };
        const [skill] = await catalog.write(call.owner, [
          { op: "create", kind: skills.kind, id, body, labels },
          toNewVersion(id, version, upload),
        ]);
        return toSkill(skill as Document<SkillBody>);
      };
      return madeOnce(services, call, { shelf: skills, said: upload, make, tell: toSkill });
    }),
  );

  route("GET", "/skills", { query: ListSkills }, async ({ owner, query }) => {
    if (query.source !== undefined && query.source !== "custom") return { data: [], next_page: null };
    return toList(await skills.page(owner, query), toSkill);
  });

  route("GET", "/skills/:id", {}, async ({ owner, param }) => toSkill(await skills.get(owner, param("id"))));

  route("DELETE", "/skills/:id", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "skill_deleted" }, async () => {
      const { id } = await skills.get(owner, param("id"));
      await catalog.write(owner, [{ op: "remove", kind: skills.kind, id, children: true }]);
    }),
  );

  route("POST", "/skills/:id/versions", {}, async (call) => {
    const { c, owner, param } = call;
    const { id } = await skills.get(owner, param("id"));
    return withUpload(c, catalog, (upload) => {
      const make = async (labels: Labels): Promise<SkillVersion> => {
        const version = createId("skillVersion");
        await skills.update(owner, id, ({ body }) => {
          const { name } = upload.version;
          if (name !== body.name)
            throw refuse(`files: the skill is called ${body.name}, and this one ${name}.`);
          const replace = { body: { ...body, latest_version_id: version } };
          return { replace, also: [{ ...toNewVersion(id, version, upload), labels }] };
        });
        return toSkillVersion(await versions.get(owner, version));
      };
      return madeOnce(services, call, { shelf: versions, said: upload, make, tell: toSkillVersion });
    });
  });

  route("GET", "/skills/:id/versions", { query: ListVersions }, async ({ owner, query, param }) => {
    const { id } = await skills.get(owner, param("id"));
    return toList(await versions.page(owner, query, { parent: id }), toSkillVersion);
  });

  route("GET", "/skills/:id/versions/:version", {}, async ({ owner, param }) =>
    toSkillVersion(await getVersion(owner, param("id"), param("version"))),
  );

  route("GET", "/skills/:id/versions/:version/content", {}, async ({ owner, param }) => {
    const { body, createdAt } = await getVersion(owner, param("id"), param("version"));
    const entries = [];
    for (const file of body.files) {
      const content = await readSkillFile(catalog, file);
      entries.push({ path: `${body.name}/${file.path}`, content, mode: modeOf(content) });
    }
    const zip = toZip(entries, new Date(createdAt));
    return new Response(zip as Uint8Array<ArrayBuffer>, {
      headers: {
        "content-type": "application/zip",
        "content-length": String(zip.length),
        "content-disposition": `attachment; filename="${body.name}.zip"`,
      },
    });
  });

  route("DELETE", "/skills/:id/versions/:version", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("version"), type: "skill_version_deleted" }, async () => {
      const { id, parent } = await versions.get(owner, param("version"));
      if (parent !== param("id")) throw noVersion(param("id"), id);
      await skills.update(owner, param("id"), async ({ body }) => {
        const newest = await versions.list(owner, { parent: param("id"), order: "desc", limit: 2 });
        const other = newest.find((version) => version.id !== id);
        if (!other) throw refuse("A skill has at least one version. Delete the skill instead.");
        const latest_version_id = body.latest_version_id === id ? other.id : body.latest_version_id;
        const also = [{ op: "remove", kind: versions.kind, id }] as const;
        return { replace: { body: { ...body, latest_version_id } }, also };
      });
    }),
  );
}

function noVersion(skill: string, version: string): SluiceError {
  return new SluiceError("not_found", `The skill ${skill} has no version ${version}.`);
}

/** A file of a skill, for an archive or for where an agent looks for it. */
export async function readSkillFile(catalog: Catalog, file: SkillFile): Promise<Uint8Array> {
  const stored = await catalog.bytes.read(file.content);
  if (!stored)
    throw new SluiceError("internal", `The content of ${file.path} is missing from the data folder.`);
  return new Uint8Array(await new Response(stored.stream()).arrayBuffer());
}

/** An upload says of no file that it is a program; a program says so itself. */
export function modeOf([first, second]: Uint8Array): number {
  return first === 0x23 && second === 0x21 ? 0o755 : 0o644;
}

interface Upload {
  readonly displayName: string | undefined;
  readonly version: Omit<SkillVersionBody, "skill_id">;
}

/** What was uploaded is in hand until the work is done, and then either a document's or nobody's. */
async function withUpload<T>(
  c: AnthropicCall<unknown, unknown>["c"],
  catalog: Catalog,
  work: (upload: Upload) => Promise<T>,
): Promise<T> {
  const held: HeldBytes[] = [];
  try {
    return await work(await readUpload(c, catalog, held));
  } finally {
    for (const bytes of held) await bytes.release();
  }
}

async function readUpload(
  c: AnthropicCall<unknown, unknown>["c"],
  catalog: Catalog,
  held: HeldBytes[],
): Promise<Upload> {
  let displayName: string | undefined;
  const folders = new Set<string>();
  const files: SkillFile[] = [];
  for await (const part of readParts(streamBody(c, MAX_BYTES), c.req.header("content-type"))) {
    if (part.name === "display_name") displayName = (await readField(part)).trim() || undefined;
    if (part.name !== "files" && part.name !== "files[]") continue;
    if (files.length === MAX_FILES) throw refuse(`files: at most ${MAX_FILES} are allowed.`);
    const { folder, path } = toSkillPath(part.filename ?? "");
    folders.add(folder);
    if (files.some((file) => file.path === path)) throw refuse(`files: ${path} is there twice.`);
    const bytes = await catalog.bytes.write(part.content);
    held.push(bytes);
    files.push({ path, content: bytes.hash, size: bytes.size });
  }
  if (displayName !== undefined && (displayName.length > 255 || /[\r\n]/.test(displayName)))
    throw refuse("display_name: expected one line of at most 255 characters.");
  const [folder] = folders;
  if (folder === undefined) throw refuse("files: the form has no part of this name.");
  if (folders.size > 1) throw refuse("files: all of them have to be in one top folder.");
  const main = files.find(({ path }) => path === "SKILL.md");
  if (!main) throw refuse(`files: there is no SKILL.md in ${folder}.`);
  const text = new TextDecoder().decode(await readSkillFile(catalog, main));
  return { displayName, version: { ...parseSkillText(text, folder), files } };
}

function toNewVersion(skill: string, id: string, { version }: Upload) {
  const body: SkillVersionBody = { skill_id: skill, ...version };
  const bytes = [...new Set(version.files.map(({ content }) => content))];
  return { op: "create", kind: "skill_version", id, parent: skill, body, bytes } as const;
}
