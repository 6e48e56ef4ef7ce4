/** A resource as a catalog keeps it: what it says, and when. */
export interface Stored<Body> {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly body: Body;
}

/** RFC 3339. */
export function toTimestamp(time: number): string {
  return new Date(time).toISOString();
}

export function toTimes(stored: Stored<unknown>): { created_at: string; updated_at: string } {
  return { created_at: toTimestamp(stored.createdAt), updated_at: toTimestamp(stored.updatedAt) };
}
