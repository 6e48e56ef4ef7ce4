import type { BetaSkill, BetaSkillVersion } from "@anthropic-ai/sdk/resources/beta/skills";
import type { Catalog, Document, HeldBytes } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import {
  parseSkillText,
  type SkillBody,
  type SkillFile,
  type SkillVersionBody,
  toSkill,
  toSkillPath,
  toSkillVersion,
} from "../../../dialects/anthropic/resources/skill.ts";
import { readField, readParts } from "../../body/multipart.ts";
import { streamBody } from "../../body/read.ts";
import { toList } from "../collections.ts";
import { createId } from "../dialect.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import { skillOperations } from "../operations/documents.ts";
import type { AnthropicCall, Route, SharedServices } from "../route.ts";
import { toZip } from "./zip.ts";

/** The limit for all files of one version together. */
const MAX_BYTES = 30 * 1024 * 1024;
const MAX_FILES = 500;

export function mountSkills(route: Route, services: SharedServices): void {
  const { catalog, collections } = services;
  const { skills, skillVersions: versions } = collections;

  /** `version` is an id, or `latest`. */
  const getVersion = async (
    tenant: string,
    id: string,
    version: string,
  ): Promise<Document<SkillVersionBody>> => {
    const skill = await skills.get(tenant, id);
    const found = await versions.find(tenant, version === "latest" ? skill.body.latest_version_id : version);
    if (found?.parent === id) return found;
    throw noVersion(id, version);
  };

  route(skillOperations.anthropicCreateSkill, (call) =>
    withUpload(call.c, catalog, (upload) => {
      const create = async (labels: Labels): Promise<BetaSkill> => {
        const [id, version] = [createId("skill"), createId("skillVersion")];
        const { name } = upload.version;
        const display_name = upload.displayName ?? name;
        const body: SkillBody = { display_name, name, latest_version_id: version };
        const also = [toNewVersion(id, version, upload)];
        return toSkill(await skills.create(call.tenant, { id, body, labels }, also));
      };
      return createOnce(call, { collection: skills, input: upload, create, toAnswer: toSkill });
    }),
  );

  route(skillOperations.anthropicListSkills, async ({ tenant, query }) => {
    if (query.source !== undefined && query.source !== "custom") return { data: [], next_page: null };
    return toList(await skills.page(tenant, query), toSkill);
  });

  route(skillOperations.anthropicGetSkill, async ({ tenant, param }) =>
    toSkill(await skills.get(tenant, param("id"))),
  );

  route(skillOperations.anthropicDeleteSkill, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "skill_deleted" }, async () => {
      const { id } = await skills.get(tenant, param("id"));
      await skills.remove(tenant, id, { children: true });
    }),
  );

  route(skillOperations.anthropicCreateSkillVersion, async (call) => {
    const { c, tenant, param } = call;
    const { id } = await skills.get(tenant, param("id"));
    return withUpload(c, catalog, (upload) => {
      const create = async (labels: Labels): Promise<BetaSkillVersion> => {
        const version = createId("skillVersion");
        await skills.update(tenant, id, ({ body }) => {
          const { name } = upload.version;
          if (name !== body.name)
            throw refuse(
              `files: the skill is called ${body.name}, but SKILL.md calls it ${name}. Use the same name, or create another skill.`,
            );
          const replace = { body: { ...body, latest_version_id: version } };
          return { replace, also: [{ ...toNewVersion(id, version, upload), labels }] };
        });
        return toSkillVersion(await versions.get(tenant, version));
      };
      return createOnce(call, {
        collection: versions,
        input: upload,
        create,
        toAnswer: toSkillVersion,
      });
    });
  });

  route(skillOperations.anthropicListSkillVersions, async ({ tenant, query, param }) => {
    const { id } = await skills.get(tenant, param("id"));
    return toList(await versions.page(tenant, query, { parent: id }), toSkillVersion);
  });

  route(skillOperations.anthropicGetSkillVersion, async ({ tenant, param }) =>
    toSkillVersion(await getVersion(tenant, param("id"), param("version"))),
  );

  route(skillOperations.anthropicGetSkillContent, async ({ tenant, param }) => {
    const { body, createdAt } = await getVersion(tenant, param("id"), param("version"));
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

  route(skillOperations.anthropicDeleteSkillVersion, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("version"), type: "skill_version_deleted" }, async () => {
      const { id, parent } = await versions.get(tenant, param("version"));
      if (parent !== param("id")) throw noVersion(param("id"), id);
      await skills.update(tenant, param("id"), async ({ body }) => {
        const newest = await versions.list(tenant, { parent: param("id"), order: "desc", limit: 2 });
        const other = newest.find((version) => version.id !== id);
        if (!other)
          throw refuse(
            "This is the skill's only version, which cannot be deleted. Delete the skill instead.",
          );
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

export async function readSkillFile(catalog: Catalog, file: SkillFile): Promise<Uint8Array> {
  const stored = await catalog.bytes.read(file.content);
  if (!stored)
    throw new SluiceError("internal", `The content of ${file.path} is missing from the data folder.`);
  return new Uint8Array(await new Response(stored.stream()).arrayBuffer());
}

/** An upload has no modes, so a shebang marks a program. */
export function modeOf([first, second]: Uint8Array): number {
  return first === 0x23 && second === 0x21 ? 0o755 : 0o644;
}

interface Upload {
  readonly displayName: string | undefined;
  readonly version: Omit<SkillVersionBody, "skill_id">;
}

/** Holds the uploaded bytes while `work` runs. Afterwards only the documents that name them keep them. */
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
    if (files.some((file) => file.path === path))
      throw refuse(`files: ${path} appears twice. Leave one out.`);
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
