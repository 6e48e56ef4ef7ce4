export interface DockerEngine {
  readonly socketPath: string;
  readonly image: string;
  /** Whether containers can have a network other than none. */
  readonly hasNetwork: boolean;
  stop(): Promise<void>;
}

export const IMAGE: string;
export function whyNot(): string | undefined;
export function start(): Promise<DockerEngine>;
