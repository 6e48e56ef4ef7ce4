import { lstat, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import {
  type RepositoryParams,
  type RepositoryResource,
  toRepositoryPath,
} from "../../dialects/anthropic/resources/session-resource.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { isTenant } from "../auth.ts";
import { cloneRepository, RepositoryFailure, type Wanted } from "./git-clone.ts";
import { createId } from "./ids.ts";
import { assertReach } from "./reach.ts";
import type { AnthropicServices } from "./services.ts";

/** What can be known of a repository without asking for it. */
export function checkRepository(owner: string, { url, mount_path }: RepositoryParams): void {
  const { username, password, protocol } = new URL(url);
  if (username !== "" || password !== "")
    throw refuse("resources: the URL of a repository has no name and password; use authorization_token.");
  // Paths of this machine are for those who have its own token.
  if (protocol === "file:" && isTenant(owner))
    throw refuse("resources: a repository has an http or https URL.");
  assertReach.repository(owner, url);
  if (!mount_path) toRepositoryPath(url);
}

/** A repository that cannot be had is told of, and the session begins without it. */
export async function addRepository(
  services: AnthropicServices,
  owner: string,
  { session, resource, place: at }: { session: string; resource: RepositoryParams; place: number },
): Promise<RepositoryResource> {
  const { url, checkout, authorization_token: token } = resource;
  const mount_path = resource.mount_path ?? toRepositoryPath(url);
  const key = `resource:${at}`;
  const wanted = { url, checkout: checkout ?? undefined, token, isPublic: isTenant(owner) };
  await place(services, { session, mount_path, ...wanted, key });
  const now = toTimestamp(Date.now());
  return {
    id: createId("resource"),
    type: "github_repository",
    url,
    mount_path,
    ...(checkout === undefined ? {} : { checkout }),
    created_at: now,
    updated_at: now,
  };
}

/** A new token is tried where the old one did not open it. */
export async function renewRepository(
  services: AnthropicServices,
  owner: string,
  { session, resource, token }: { session: string; resource: RepositoryResource; token: string },
): Promise<void> {
  const { url, mount_path, checkout } = resource;
  const files = await services.engine.files(session);
  const isThere = await files.stat(mount_path).then(
    () => true,
    () => false,
  );
  if (isThere) return;
  const wanted = { url, checkout: checkout ?? undefined, token, isPublic: isTenant(owner) };
  await place(services, { session, mount_path, ...wanted });
}

interface Placed extends Wanted {
  readonly session: string;
  readonly mount_path: string;
  /** That it cannot be had is told once under this key, however often it is tried. */
  readonly key?: string;
}

/** Cloned on this side, so that the token never comes near the agent; then copied to where it works. */
async function place(
  { engine }: AnthropicServices,
  { session, mount_path, key, ...wanted }: Placed,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-clone-"));
  try {
    await cloneRepository(folder, wanted);
    const files = await engine.files(session);
    await copyFolder(files, folder, mount_path);
  } catch (error) {
    if (!(error instanceof RepositoryFailure)) throw error;
    const { code, message } = error;
    const failed = { code, message, details: { repository_url: wanted.url } };
    const options = { via: "anthropic", ...(key !== undefined && { key }) };
    await engine.submit(session, [{ kind: "error", error: failed }], options);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type SandboxFiles = Awaited<ReturnType<AnthropicServices["engine"]["files"]>>;

/** Programs stay programs and links stay links, so that the copy is what was committed. */
async function copyFolder(files: SandboxFiles, from: string, to: string): Promise<void> {
  await files.mkdir(to);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyFolder(files, source, target);
    if (entry.isSymbolicLink()) await copyLink(files, source, target);
    if (!entry.isFile()) continue;
    const { mode } = await lstat(source);
    await files.write(target, await readFile(source), { mode: mode & 0o100 ? 0o755 : 0o644 });
  }
}

/** Where there are no links, a file says where it would have led: so does git. */
async function copyLink(files: SandboxFiles, from: string, to: string): Promise<void> {
  const target = await readlink(from);
  // A link takes nobody's place, and a copy may be made again over one that was cut short.
  await files.remove(to).catch(() => {});
  await (files.symlink ? files.symlink(to, target) : files.write(to, target));
}
