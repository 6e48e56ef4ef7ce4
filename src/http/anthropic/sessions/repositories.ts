import { createReadStream } from "node:fs";
import { lstat, mkdtemp, readdir, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { refuse, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  type RepositoryParams,
  type RepositoryResource,
  toRepositoryPath,
} from "../../../dialects/anthropic/resources/session.ts";
import { isWorkspace } from "../../auth.ts";
import { createId } from "../dialect.ts";
import type { TenantScope } from "../route.ts";
import { assertReachable } from "../tenant-network.ts";
import { cloneRepository, RepositoryFailure, type CloneRequest } from "./git-clone.ts";

/** The checks of a repository that need no network. */
export function checkRepository(tenant: string, { url, mount_path }: RepositoryParams): void {
  const { username, password, protocol } = new URL(url);
  if (username !== "" || password !== "")
    throw refuse(
      "resources: the URL of a repository must not have a user name or password. Use authorization_token.",
    );
  // Paths of this machine need the server's own token.
  if (protocol === "file:" && isWorkspace(tenant))
    throw refuse("resources: the URL of a repository has to be http or https.");
  assertReachable.repository(tenant, url);
  if (!mount_path) toRepositoryPath(url);
}

/** A repository that cannot be cloned becomes an error event; the session begins without it. */
export async function addRepository(
  scope: TenantScope,
  { session, resource, index }: { session: string; resource: RepositoryParams; index: number },
): Promise<RepositoryResource> {
  const { url, checkout, authorization_token: token } = resource;
  const mount_path = resource.mount_path ?? toRepositoryPath(url);
  const key = `resource:${index}`;
  const wanted = { url, checkout: checkout ?? undefined, token, isPublic: isWorkspace(scope.tenant) };
  await cloneInto(scope, { session, mount_path, ...wanted, key });
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

/** Clones with a new token, unless the repository is there already. */
export async function renewRepository(
  scope: TenantScope,
  { session, resource, token }: { session: string; resource: RepositoryResource; token: string },
): Promise<void> {
  const { url, mount_path, checkout } = resource;
  const files = await scope.engine.files(session);
  const isThere = await files.stat(mount_path).then(
    () => true,
    () => false,
  );
  if (isThere) return;
  const wanted = { url, checkout: checkout ?? undefined, token, isPublic: isWorkspace(scope.tenant) };
  await cloneInto(scope, { session, mount_path, ...wanted });
}

interface Target extends CloneRequest {
  readonly session: string;
  readonly mount_path: string;
  /** Deduplicates the error event of repeated attempts. */
  readonly key?: string;
}

/** Clones outside of the sandbox, to keep the token from the agent, and copies the files into it. */
async function cloneInto(
  { engine }: Pick<TenantScope, "engine">,
  { session, mount_path, key, ...wanted }: Target,
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

type SandboxFiles = Awaited<ReturnType<TenantScope["engine"]["files"]>>;

/** Keeps executable files and links, so that the copy equals the commit. */
async function copyFolder(files: SandboxFiles, from: string, to: string): Promise<void> {
  await files.mkdir(to);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyFolder(files, source, target);
    if (entry.isSymbolicLink()) await copyLink(files, source, target);
    if (!entry.isFile()) continue;
    const { mode } = await lstat(source);
    await files.write(target, createReadStream(source), { mode: mode & 0o100 ? 0o755 : 0o644 });
  }
}

/** In a sandbox without symbolic links, a file holds the target of the link, as in git. */
async function copyLink(files: SandboxFiles, from: string, to: string): Promise<void> {
  const target = await readlink(from);
  // A link does not replace an existing file, which an unfinished copy may have left.
  await files.remove(to).catch(() => {});
  await (files.symlink ? files.symlink(to, target) : files.write(to, target));
}
