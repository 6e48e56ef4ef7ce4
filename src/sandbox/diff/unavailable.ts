/** Why a folder has no diff; told to whoever wants to know, and no failure. */
export class Unavailable extends Error {}
