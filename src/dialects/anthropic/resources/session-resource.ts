import { z } from "zod";
import { refuse, unsupported } from "./refusal.ts";

const MountPath = z
  .string()
  .max(1024)
  .regex(/^\/(?!.*(^|\/)\.\.(\/|$))/, "expected an absolute path without ..")
  .nullish();

export const FileResourceParams = z.object({
  type: z.literal("file"),
  file_id: z.string().min(1),
  mount_path: MountPath,
});
export type FileResourceParams = z.infer<typeof FileResourceParams>;

const Checkout = z.discriminatedUnion("type", [
  z.object({ type: z.literal("branch"), name: z.string().min(1).max(255) }),
  z.object({
    type: z.literal("commit"),
    sha: z.string().regex(/^[0-9a-f]{7,64}$/i, "expected a commit's hash"),
  }),
]);
export type Checkout = z.infer<typeof Checkout>;

const RepositoryParams = z.object({
  type: z.literal("github_repository"),
  url: z.url({ protocol: /^(https?|file)$/, error: "expected the URL of a repository" }),
  authorization_token: z.string().min(1).optional(),
  checkout: Checkout.nullish(),
  mount_path: MountPath,
});
export type RepositoryParams = z.infer<typeof RepositoryParams>;

export const ResourceParams = z.discriminatedUnion("type", [FileResourceParams, RepositoryParams], {
  error: ({ input }) =>
    (input as { type?: unknown } | undefined)?.type === "memory_store"
      ? unsupported("memory stores are").message
      : "expected a file or a github_repository",
});
export type ResourceParams = z.infer<typeof ResourceParams>;

interface Resource {
  readonly id: string;
  readonly mount_path: string;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface FileResource extends Resource {
  readonly type: "file";
  /** Of the session's own copy. */
  readonly file_id: string;
}

export interface RepositoryResource extends Resource {
  readonly type: "github_repository";
  readonly url: string;
  readonly checkout?: Checkout | null;
}

export type SessionResource = FileResource | RepositoryResource;

export const UPLOADS = "/mnt/session/uploads";

/** Where a repository goes by itself: below the workspace, under its own name. */
export function toRepositoryPath(url: string): string {
  const name =
    new URL(url).pathname
      .replace(/\/+$/, "")
      .split("/")
      .at(-1)
      ?.replace(/\.git$/, "") ?? "";
  if (!/^[\w.-]+$/.test(name) || name === "." || name === "..")
    throw refuse(`resources: ${url} names no repository. Give a mount_path.`);
  return `/workspace/${name}`;
}
