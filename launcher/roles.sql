-- The two roles of the service and its database. Run by the superuser of a new cluster: by
-- `./dev` on the servers it starts, and by the PostgreSQL image of docker-compose.yml.
--
-- allocator_owner makes and owns the tables (MIGRATION_DATABASE_URL); allocator is what the
-- service connects as (DATABASE_URL): it uses the tables and owns nothing, so that a table can be
-- made insert-only for it by taking privileges away.

CREATE ROLE allocator_owner LOGIN CREATEDB;
CREATE ROLE allocator LOGIN;
GRANT allocator TO allocator_owner;

-- Where passwords are used (in containers); on a private socket there are none.
\getenv owner_password ALLOCATOR_OWNER_PASSWORD
\if :{?owner_password}
ALTER ROLE allocator_owner PASSWORD :'owner_password';
\endif
\getenv application_password ALLOCATOR_PASSWORD
\if :{?application_password}
ALTER ROLE allocator PASSWORD :'application_password';
\endif

-- Every database made from now on, those of tests included, is a copy of template1.
\connect template1
CREATE EXTENSION btree_gist;
ALTER DEFAULT PRIVILEGES FOR ROLE allocator_owner
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO allocator;
ALTER DEFAULT PRIVILEGES FOR ROLE allocator_owner
    GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO allocator;

CREATE DATABASE allocator OWNER allocator_owner;
