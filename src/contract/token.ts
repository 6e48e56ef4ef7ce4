import { z } from "zod";

/** What a token permits. Each scope includes those before it. */
export const Scope = z.enum(["read", "answer", "control", "admin"]);
export type Scope = z.infer<typeof Scope>;

export const CreateToken = z.strictObject({
  scope: Scope.describe(
    "read: reads · answer: also answers requests of agents · control: also runs and changes sessions · admin: also tokens, credentials and metrics",
  ),
  session: z.string().min(1).optional().describe("reaches this session alone"),
  workspace: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "a workspace is named by letters, digits, '.', '_' and '-'")
    .optional()
    .describe("reaches the sessions and resources of this workspace alone"),
  name: z.string().min(1).max(128).optional().describe("for people; events name the token by its id"),
  expiresIn: z.int().min(1).max(3_153_600_000).optional().describe("in seconds; for ever if absent"),
});
export type CreateToken = z.infer<typeof CreateToken>;

/** A token without its secret, which nobody can read again. */
export const TokenInfo = z.strictObject({
  id: z.string(),
  scope: Scope,
  session: z.string().optional(),
  workspace: z.string().optional(),
  name: z.string().optional(),
  createdAt: z.int().describe("milliseconds since 1970"),
  expiresAt: z.int().optional(),
});
export type TokenInfo = z.infer<typeof TokenInfo>;

export const CreatedToken = z.strictObject({
  ...TokenInfo.shape,
  token: z.string().describe("shown once; send it as `Authorization: Bearer <token>`"),
});
export type CreatedToken = z.infer<typeof CreatedToken>;
